"""Spans, journals and options of the chaos test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cluster.ring import BucketSet
from tests.chaos.ending import judge_ends
from tests.chaos.evidence import Effect, Poll, Size
from tests.chaos.options import Options, WrongOption, read_options
from tests.chaos.reading import missing_lines, read_fleet, read_lines, read_scheduler, read_vms
from tests.chaos.spans import Span, merged, overlap

VMS = read_vms(
    [{"namespace": "sim", "name": "a", "slot_bytes": 10, "use": {"cpu_m": 500, "mem": 2}}], BucketSet(4)
)
BUCKET = VMS["sim/a"].bucket


def test_spans_that_overlap_count_once() -> None:
    spans = merged([Span(5, 8), Span(1, 3), Span(2, 4), Span(8, 9)])
    assert [(span.begin, span.end) for span in spans] == [(1, 4), (5, 9)]
    assert overlap(spans, 3, 6) == 2
    assert overlap(spans, 10, 20) == 0


def test_lines_are_read_with_the_rotated_ones_first_and_without_one_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.with_name("j.1").write_text('{"n": 1}\n{"n": 2}\n')
    path.write_text('{"n": 3}\n{"n": 4')
    assert [line["n"] for line in read_lines(path)] == [1, 2, 3]
    assert list(read_lines(tmp_path / "none")) == []


def test_numbers_that_are_left_out_are_noticed_and_a_new_beginning_is_none() -> None:
    assert missing_lines("x", [{"n": 1}, {"n": 2}, {"n": 1}, {"n": 2}]) == []
    assert missing_lines("x", [{"n": 1}, {"n": 4}]) == ["x: lines 2 to 3 are missing"]
    assert missing_lines("x", [{"n": 7}]) == ["x: lines 1 to 6 are missing"]
    shared = [{"n": 1, "agent": "a"}, {"n": 1, "agent": "b"}, {"n": 2, "agent": "a"}]
    assert missing_lines("x", shared, of="agent") == []
    torn = [*shared, {"n": 3, "agent": "b"}]
    assert missing_lines("x", torn, of="agent") == ["x: lines 2 to 2 of b are missing"]


def test_the_fleets_lines_become_effects_and_polls() -> None:
    lines = [
        {"mono": 1, "effect": "polled", "vm": "sim/a", "holder": "w"},
        {
            "mono": 2,
            "effect": "asked",
            "vm": "sim/a",
            "holder": "w",
            "bucket": "b",
            "token": 7,
            "status": 409,
            "to": {"cpu_m": 250, "mem": 3},
        },
        {"mono": 3, "effect": "applied", "vm": "sim/a", "token": 7, "to": {"cpu_m": 250, "mem": 3}},
        {"mono": 4, "effect": "monitor connected", "vm": "sim/a", "holder": "w"},
        {
            "mono": 5,
            "effect": "monitor approved",
            "vm": "sim/a",
            "holder": "w",
            "to": {"cpu_m": 250, "mem_bytes": 20},
        },
    ]
    effects, polls = read_fleet(lines, VMS)
    assert polls == [Poll(1, "sim/a", "w")]
    assert effects == [
        Effect(2, "platform", "asked", "sim/a", "b", "w", 7, False, Size(250, 30), lines[1]),
        Effect(4, "monitor", "connected", "sim/a", BUCKET, "w", None, True, None, lines[3]),
        Effect(5, "monitor", "approved", "sim/a", BUCKET, "w", None, True, Size(250, 20), lines[4]),
    ]


def test_the_schedulers_lines_become_effects() -> None:
    text = (
        '{"mono": 1, "vm": "sim/a", "holder": "w", "bucket": "b", "token": 7, '
        '"effect": "granted", "to": {"cpu_m": 250, "mem_bytes": 20}}\n'
        '{"mono": 2, "vm": "sim/a", "holder": "w", "bucket": "b", "token": 6, '
        '"effect": "refused", "reason": "old token"}\n'
    )
    granted, refused = read_scheduler([json.loads(line) for line in text.splitlines()])
    assert (granted.is_applied, granted.size, granted.token) == (True, Size(250, 20), 7)
    assert (refused.is_applied, refused.size, refused.what) == (False, None, "asked: old token")


def test_options_come_from_the_environment() -> None:
    assert read_options({}) == Options()
    assert read_options({"CHAOS_SECONDS": "600", "CHAOS_SEED": "7", "CHAOS_KEEP": "1"}) == Options(
        seconds=600, seed=7, keep=True
    )


@pytest.mark.parametrize(
    ("name", "value"), [("CHAOS_SECONDS", "soon"), ("CHAOS_WORKERS", "1"), ("CHAOS_SEED", "nan")]
)
def test_an_option_that_can_not_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(WrongOption, match=name):
        read_options({name: value})


def test_a_worker_may_end_by_its_watchdog_only() -> None:
    ends = {"worker1": ["exit status 75"], "worker2": ["exit status 75", "exit status 1"], "worker3": []}
    assert [found.text for found in judge_ends(ends)] == ["worker2: exit status 1"]
