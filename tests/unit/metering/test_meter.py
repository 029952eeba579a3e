"""The arithmetic of meters, by hand-made examples."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput, NewerVersion
from app.metering.meter import (
    Meter,
    MeterId,
    Slice,
    Told,
    Usage,
    begin_meter,
    close_window,
    is_all_told,
    note,
    slice_between,
    with_sinks,
)
from app.metering.stored import decode_meter, encode_meter, id_field, parse_id_field

AN_ID = MeterId("default/db", "uid-1", "ep-1")


def noted(meter: Meter, cpu: int | None, after_ms: int, *, wall_ms: int | None = None) -> Meter:
    now = meter.at_ms + after_ms if wall_ms is None else wall_ms
    return note(meter, cpu, elapsed_ms=after_ms, now_ms=now, max_gap_ms=45_000)


def test_a_slice_counts_the_smaller_of_its_two_cpus() -> None:
    meter = begin_meter(1_000, 2_000, ["http"])
    up = noted(meter, 3_000, 4_000)
    down = noted(up, 500, 4_000)
    assert (up.cpu, up.active) == (8_000_000, 4_000)
    assert (down.cpu, down.active) == (10_000_000, 8_000)
    assert slice_between(up, down) == Slice(5_000, 9_000, 500, 4_000)


def test_nothing_is_counted_before_the_first_note_and_after_the_vm_stopped_saying() -> None:
    silent = noted(begin_meter(1_000, 2_000, ["http"]), None, 4_000)
    assert (silent.cpu, silent.active, silent.noted) == (0, 0, None)
    again = noted(silent, 2_000, 4_000)
    assert again.active == 0
    assert noted(again, 2_000, 4_000).active == 4_000


@pytest.mark.parametrize(("gap_ms", "counted"), [(45_000, 45_000), (45_001, 0)])
def test_a_gap_counts_whole_up_to_the_bound_and_not_at_all_beyond(gap_ms: int, counted: int) -> None:
    meter = noted(begin_meter(0, 1_000, ["http"]), 1_000, gap_ms)
    assert (meter.active, meter.at_ms) == (counted, gap_ms)


def test_a_wall_clock_that_was_set_back_loses_nothing_and_bills_nothing_twice() -> None:
    meter = begin_meter(10_000_000, 1_000, ["http"])
    for wall_ms in (6_400_000, 6_404_000, 10_008_000):
        meter = noted(meter, 1_000, 4_000, wall_ms=wall_ms)
    assert (meter.active, meter.at_ms) == (12_000, 10_012_000)


def test_a_wall_clock_that_was_set_forward_adds_nothing() -> None:
    meter = noted(begin_meter(0, 1_000, ["http"]), 1_000, 4_000, wall_ms=3_600_000)
    assert (meter.active, meter.at_ms) == (4_000, 3_600_000)


def test_time_that_goes_back_counts_as_none() -> None:
    meter = noted(begin_meter(50_000, 1_000, ["http"]), 2_000, -9_000)
    assert (meter.active, meter.at_ms, meter.noted) == (0, 50_000, 2_000)


def test_rounding_does_not_add_up() -> None:
    meter, values = begin_meter(0, 333, ["http"]), []
    for _ in range(1_000):
        meter, usage = close_window(noted(meter, 333, 1_400), "http")
        assert usage is not None
        values.append((usage.cpu_s, usage.active_s))
    assert sum(cpu for cpu, _ in values) == 466  # 1000 × 1.4 s × 0.333 = 466.2
    assert sum(active for _, active in values) == 1_400


def test_windows_follow_each_other_and_an_empty_one_makes_no_event() -> None:
    meter, usage = close_window(noted(begin_meter(0, 1_000, ["http"]), 1_000, 24_000), "http")
    assert usage == Usage(0, 24_000, 24, 24)
    assert close_window(meter, "http") == (meter, None)
    meter, usage = close_window(noted(meter, 1_000, 60_000), "http")
    assert usage is None
    meter, usage = close_window(noted(meter, 1_000, 10_000), "http")
    assert usage == Usage(84_000, 94_000, 10, 10)


def test_each_sink_has_windows_of_its_own() -> None:
    meter, first = close_window(noted(begin_meter(0, 2_000, ["http", "s3"]), 2_000, 24_000), "http")
    assert not is_all_told(meter)
    meter, late = close_window(noted(meter, 2_000, 24_000), "s3")
    meter, second = close_window(meter, "http")
    assert (first, second, late) == (
        Usage(0, 24_000, 48, 24),
        Usage(24_000, 48_000, 48, 24),
        Usage(0, 48_000, 96, 48),
    )
    assert is_all_told(meter)
    assert close_window(meter, "file") == (meter, None)


def test_a_new_sink_begins_now_and_one_that_is_gone_is_forgotten() -> None:
    meter = with_sinks(noted(begin_meter(0, 1_000, ["http"]), 1_000, 4_000), ["file"])
    assert meter.told == {"file": Told(4_000, 4_000_000, 4_000)}


def test_a_meter_is_read_as_it_was_written() -> None:
    for meter in (
        begin_meter(1, 2_000, []),
        noted(noted(begin_meter(1, 2_000, ["a", "b"]), 1_000, 7), None, 8),
    ):
        assert decode_meter(encode_meter(meter), AN_ID) == meter
    assert parse_id_field(id_field(AN_ID)) == AN_ID
    strange = MeterId('a "]/ü', "\n", "🐘")
    assert parse_id_field(id_field(strange)) == strange


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"[true,1,1,1,1,{}]",
        b"[0,-1,1,1,1,{}]",
        b"[1,1,1,1,1.5,{}]",
        b"[1,1,1,1,1,[]]",
        b'[1,1,1,1,1,{"http":[1,2]}]',
        b'[1,1,1,1,1,{"http":[1,2,"3"]}]',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_meter_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput, match="default/db"):
        decode_meter(raw, AN_ID)


def test_a_newer_versions_meter_is_known_as_such() -> None:
    with pytest.raises(NewerVersion):
        decode_meter(b'[2,"whatever"]', AN_ID)


@pytest.mark.parametrize("field", ["step", "[]", '["a","b"]', '["a","b",1]', "[" * 5_000])
def test_what_is_no_meters_field_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput):
        parse_id_field(field)
