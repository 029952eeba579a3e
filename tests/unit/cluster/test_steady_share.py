"""Which share counts while workers come and go."""

from __future__ import annotations

import pytest

from app.cluster.steady_share import Share, SteadyShare


@pytest.fixture
def steady() -> SteadyShare:
    return SteadyShare(settle_s=4, away_s=2, return_s=1)


def test_the_first_look_counts_at_once(steady: SteadyShare) -> None:
    assert steady.look(8, 100.0) == Share(8, 8)


def test_a_smaller_share_makes_surplus_only_once_it_has_stood(steady: SteadyShare) -> None:
    steady.look(16, 100.0)
    keeps = [steady.look(8, 100.5 + 0.5 * step).keep for step in range(9)]
    assert keeps == [16] * 7 + [8] * 2  # at 100.5 … 103.5, then from 104 on


def test_one_that_comes_and_goes_never_makes_surplus(steady: SteadyShare) -> None:
    for step in range(200):
        share = 8 if step % 6 else 16
        assert steady.look(share, 100.0 + 0.5 * step).keep == 16


def test_a_larger_share_is_taken_at_once(steady: SteadyShare) -> None:
    steady.look(8, 100.0)
    assert steady.look(16, 100.5) == Share(16, 16)


def test_after_an_absence_no_more_is_taken_than_before_until_the_others_are_back(steady: SteadyShare) -> None:
    steady.look(8, 100.0)
    assert steady.look(16, 130.0) == Share(8, 16)
    assert steady.look(16, 130.9).take == 8
    assert steady.look(4, 130.95).take == 4
    assert steady.look(16, 131.0).take == 16


def test_a_short_pause_is_no_absence(steady: SteadyShare) -> None:
    steady.look(8, 100.0)
    assert steady.look(16, 102.0).take == 16
