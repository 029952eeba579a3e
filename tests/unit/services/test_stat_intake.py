"""What VMs push is judged: each mistake is named, and nothing of a bad list is taken."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from app.protocols.stat_tokens import vm_token
from app.protocols.stats import Stat
from app.services.stat_intake import Answer, IntakeLimits, StatIntake
from tests.fakes.clock import FakeClock

SECRET = "0123456789abcdef"
KEY = "default/db"
LIMITS = IntakeLimits(max_entries=10, max_bytes=4096, per_s=2.0)


class Inbox:
    def __init__(self) -> None:
        self.taken: list[Stat] = []
        self.is_full = False

    def take(self, stats: Sequence[Stat]) -> bool:
        if not self.is_full:
            self.taken += stats
        return not self.is_full


class Setting:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.inbox = Inbox()
        self.intake = StatIntake(self.inbox.take, SECRET, self.clock, LIMITS)

    def entry(self, **changes: Any) -> dict[str, Any]:
        entry = {
            "key": KEY,
            "load1": 0.5,
            "load5": 1,
            "memTotalBytes": 2048,
            "memAvailableBytes": 1024,
            "timestamp": self.clock.wall_ms(),
        }
        return {name: value for name, value in {**entry, **changes}.items() if value is not ...}

    def push(self, entries: object, token: str | None = None) -> tuple[Answer, str]:
        body = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
        verdict = self.intake.receive(body, vm_token(SECRET, KEY) if token is None else token)
        return verdict.answer, verdict.text


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_good_list_is_taken_whole(setting: Setting) -> None:
    now = setting.clock.wall_ms()
    answer = setting.push([setting.entry(), setting.entry(timestamp=now + 60_000)])
    assert answer == (Answer.TAKEN, "2 taken")
    assert setting.inbox.taken[0] == Stat(KEY, 0.5, 1, 2048, 1024, now)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": ...}, "key"),
        ({"key": 3}, "key"),
        ({"key": "no slash"}, "key"),
        ({"key": "a/b/c"}, "key"),
        ({"key": "a/" + "b" * 254}, "key"),
        ({"load1": ...}, "load1"),
        ({"load1": "0.5"}, "load1"),
        ({"load1": True}, "load1"),
        ({"load1": None}, "load1"),
        ({"load5": -0.1}, "load5"),
        ({"load5": 1e300}, "load5"),
        ({"memTotalBytes": 10**40}, "memTotalBytes"),
        ({"memTotalBytes": 0, "memAvailableBytes": 0}, "memTotalBytes"),
        ({"memAvailableBytes": 4096}, "memAvailableBytes"),
        ({"memAvailableBytes": -1}, "memAvailableBytes"),
        ({"timestamp": ...}, "timestamp"),
        ({"timestamp": 1.7e12}, "timestamp"),
        ({"timestamp": "1700000000000"}, "timestamp"),
        ({"timestamp": True}, "timestamp"),
        ({"timestamp": 0}, "timestamp"),
        ({"timestamp": -5}, "timestamp"),
        ({"timestamp": 10**30}, "timestamp"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_bad_entry_is_named_by_index_and_field_and_nothing_is_taken(
    setting: Setting, changes: dict[str, Any], field: str
) -> None:
    answer, text = setting.push([setting.entry(), setting.entry(**changes), setting.entry()])
    assert answer is Answer.BAD
    assert text.startswith(f"[1].{field}: ")
    assert setting.inbox.taken == []


def test_a_timestamp_over_60_s_ahead_is_a_bad_entry(setting: Setting) -> None:
    answer, text = setting.push([setting.entry(timestamp=setting.clock.wall_ms() + 60_001)])
    assert answer is Answer.BAD
    assert text.startswith("[0].timestamp: ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "body: not JSON"),
        (b"{}", "body: not a JSON list"),
        (b"[]", "body: an empty list"),
        (b"[3]", "[0]: not a JSON object"),
        (b"[" * 40 + b"]" * 40, "body: nested"),
        (b"\xff", "body: not UTF-8"),
        (b'[{"key": "default/db", "load1": NaN}]', "body: not JSON"),
        (b'[{"key": "default/db", "load1": 1e999}]', "[0].load5: missing"),
        (b'[{"key": "default/db", "load1": 1, "load1": 2}]', "[0].load1: stands there twice"),
    ],
)
def test_what_is_no_list_of_stats_is_refused(setting: Setting, body: bytes, said: str) -> None:
    answer, text = setting.push(body)
    assert answer is Answer.BAD
    assert text.startswith(said)


def test_infinity_by_overflow_is_refused(setting: Setting) -> None:
    body = json.dumps([setting.entry(load1=12345)]).replace("12345", "1e999").encode()
    assert setting.push(body) == (Answer.BAD, "[0].load1: must be from 0 to below 9007199254740992")


@pytest.mark.parametrize("token", ["", "x", "0" * 64, vm_token(SECRET, "default/other"), "\u00e9"])
def test_without_the_vms_own_token_nothing_is_taken(setting: Setting, token: str) -> None:
    assert setting.push([setting.entry()], token)[0] is Answer.UNAUTHORIZED
    assert setting.inbox.taken == []


def test_a_token_is_good_for_no_other_key_of_the_list(setting: Setting) -> None:
    entries = [setting.entry(), setting.entry(key="default/other")]
    assert setting.push(entries)[0] is Answer.UNAUTHORIZED
    assert setting.push(entries[::-1])[0] is Answer.UNAUTHORIZED
    assert setting.inbox.taken == []


def test_a_stranger_learns_nothing_of_what_is_wrong_with_an_entry(setting: Setting) -> None:
    good = setting.push([setting.entry()], "x" * 64)
    assert setting.push([setting.entry(load1="bad")], "x" * 64) == good


def test_too_many_entries_are_too_large(setting: Setting) -> None:
    assert setting.push([setting.entry()] * 11)[0] is Answer.TOO_LARGE


def test_a_full_inbox_takes_nothing_and_costs_the_sender_nothing(setting: Setting) -> None:
    setting.inbox.is_full = True
    assert setting.push([setting.entry()] * 10)[0] is Answer.BUSY
    setting.inbox.is_full = False
    assert setting.push([setting.entry()] * 10)[0] is Answer.TAKEN


def test_a_senders_rate_is_bounded(setting: Setting) -> None:
    assert setting.push([setting.entry()] * 10)[0] is Answer.TAKEN
    answer, text = setting.push([setting.entry()])
    assert (answer, text) == (Answer.BUSY, "over 2 stats a second; send again later")
    setting.clock.advance(0.6)
    assert setting.push([setting.entry()])[0] is Answer.TAKEN
    assert setting.push([setting.entry()])[0] is Answer.BUSY
    other = vm_token(SECRET, "default/other")
    assert setting.push([setting.entry(key="default/other")], other)[0] is Answer.TAKEN
    assert len(setting.inbox.taken) == 12


def test_a_clock_that_is_off_is_said_once_and_shown_until_it_is_right(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    def push(offset_ms: int) -> None:
        setting.clock.advance(10)
        setting.push([setting.entry(timestamp=setting.clock.wall_ms() + offset_ms)])

    with caplog.at_level(logging.INFO):
        for offset in (-30_000, -31_000, 10, -30_000, -29_000, -30_000):
            push(offset)
        assert setting.intake.skew.problem == ""
        for _ in range(8):
            push(-30_000)
        assert "default/db is 30 s behind" in setting.intake.skew.problem
        for _ in range(8):
            push(200)
    assert setting.intake.skew.problem == ""
    said = [record.message for record in caplog.records]
    assert said == ["a VM's clock is not ours", "a VM's clock is right again"]
    for _ in range(5):
        push(20_000)
    assert "20 s ahead" in setting.intake.skew.problem
