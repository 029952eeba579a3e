from __future__ import annotations

import json

import pytest

from app.core.events import MonitorStartingDownscale, PlatformStarting
from app.core.model import Millis
from app.core.resources import resources
from app.errors import InvalidInput
from app.services.record import build_record, build_write, restore_runner
from app.services.vm_record import read_record
from tests.core_builders import a_config
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET, a_runner, a_virtual_machine, an_intent, load_of, some_settings


def a_written_record(clock: FakeClock) -> bytes:
    runner = a_runner(clock)
    runner.take_sample(load_of(2))
    runner.decide()
    raw = build_write(runner).record
    assert raw is not None
    return raw


def test_a_record_is_what_readers_expect() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.take_sample(load_of(2))
    runner.intents["pause"] = an_intent()
    runner.decide()
    raw = build_write(runner).record
    assert raw is not None
    record = read_record(runner.key, raw)
    assert record.pause is not None
    assert record.pause.author == "ada@ops"
    assert record.intents.pause == "pause-on-default/db"
    assert record.decision.desired.amount() == resources(2_000, 8)


def test_a_new_owner_goes_on_from_the_record() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.take_sample(load_of(2))
    runner.apply(PlatformStarting(resources(2_000, 8)))
    runner.apply(MonitorStartingDownscale(runner.now(), resources(500, 2)))
    runner.counters.upscales = 7
    raw = build_write(runner).record
    assert raw is not None
    again = restore_runner(raw, runner.vm, BUCKET, some_settings(worker="worker2"), clock)
    assert again.state == runner.state
    assert again.counters.upscales == 7
    assert again.settings.worker == "worker2"


def test_a_new_owners_clock_starts_no_lower_than_the_last_ones() -> None:
    clock = FakeClock()
    raw = a_written_record(clock)
    before = json.loads(raw)["core_now_ms"]
    clock.step_wall(-10)
    again = restore_runner(raw, a_virtual_machine(), BUCKET, some_settings(), clock)
    assert again.now() >= before


def test_a_record_from_far_in_the_future_does_not_stop_the_clock() -> None:
    clock = FakeClock()
    record = json.loads(a_written_record(clock))
    record["core_now_ms"] += 10 * 365 * 86_400_000
    again = restore_runner(json.dumps(record).encode(), a_virtual_machine(), BUCKET, some_settings(), clock)
    assert again.now() == clock.wall_ms()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"v": 99}, ".v"),
        ({"uid": "another"}, "earlier VM"),
        ({"snapshot": None}, "snapshot"),
        ({"snapshot": {"v": "x"}}, "version"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused_with_its_reason(
    change: dict[str, object], problem: str
) -> None:
    clock = FakeClock()
    record = {**json.loads(a_written_record(clock)), **change}
    with pytest.raises(InvalidInput, match=problem):
        restore_runner(json.dumps(record).encode(), a_virtual_machine(), BUCKET, some_settings(), clock)


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"[" * 100_000, b"null"])
def test_bytes_that_are_no_record_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput):
        restore_runner(raw, a_virtual_machine(), BUCKET, some_settings(), FakeClock())


def test_the_record_holds_no_more_than_a_few_kilobytes() -> None:
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(2))
    runner.decide()
    assert len(json.dumps(build_record(runner))) < 4_000


def test_a_new_owner_goes_by_its_own_settings() -> None:
    clock = FakeClock()
    ours = some_settings(core=a_config(plugin_request_tick=Millis(9_999)))
    again = restore_runner(a_written_record(clock), a_virtual_machine(), BUCKET, ours, clock)
    assert again.state.config.plugin_request_tick == 9_999
