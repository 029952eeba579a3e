"""What a trace says about the steps of a run."""

from __future__ import annotations

import pytest

from app.simulation.trace import LONE_SAMPLE_MS, Trace, shifted, step_means

TRACE = Trace("t", (0, 300_000, 600_000), (10.0, 20.0, 40.0))


def test_a_sample_holds_until_the_next_one_and_the_last_for_a_period() -> None:
    assert TRACE.end_ms == 900_000
    assert step_means(TRACE, 0, 150_000, 6) == [10, 10, 20, 20, 40, 40]


def test_a_step_over_several_samples_has_their_mean_by_time() -> None:
    assert step_means(TRACE, 0, 600_000, 2) == [15, 40]
    assert step_means(TRACE, 0, 200_000, 4) == pytest.approx([10, 15, 20, 40])


def test_before_the_first_and_after_the_last_sample_their_values_hold() -> None:
    assert step_means(TRACE, -600_000, 300_000, 6) == [10, 10, 10, 20, 40, 40]


def test_a_lone_sample_holds_for_five_minutes() -> None:
    assert Trace("t", (7,), (1.0,)).end_ms == 7 + LONE_SAMPLE_MS


def test_a_gap_is_what_is_far_longer_than_usual() -> None:
    assert Trace("t", (0, 1, 2, 3, 7, 8), (1.0,) * 6).gaps_ms() == [4]
    assert TRACE.gaps_ms() == []


def test_a_shifted_series_goes_round() -> None:
    assert shifted([1, 2, 3], 1) == [2, 3, 1]
    assert shifted([1, 2, 3], 5) == [3, 1, 2]
