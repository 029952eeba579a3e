"""The schedule of the chaos test: repeatable, with every kind of fault, and never with too much at once."""

from __future__ import annotations

import pytest

from tests.chaos.schedule import LONG_OUTAGE_S, Fault, Kind, make_schedule

SEEDS = range(200)


def test_seed_and_length_decide_it_and_each_of_them_matters() -> None:
    assert make_schedule(180, 7, 4) == make_schedule(180, 7, 4)
    assert make_schedule(180, 7, 4) != make_schedule(180, 8, 4)
    assert make_schedule(180, 7, 4) != make_schedule(240, 7, 4)


def test_it_is_the_same_on_every_machine() -> None:
    assert [fault.text() for fault in make_schedule(60, 7, 4)[:3]] == EXPECTED


def test_every_kind_of_fault_is_in_a_run_of_three_minutes() -> None:
    assert all({fault.kind for fault in make_schedule(180, seed, 4)} == set(Kind) for seed in SEEDS)


def test_faults_are_in_order_and_over_before_the_end() -> None:
    for seed in SEEDS:
        faults = make_schedule(180, seed, 4)
        assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
        assert all(0 < fault.at_s <= fault.end_s < 180 for fault in faults)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_some_workers_are_always_left_alone(workers: int) -> None:
    for seed in SEEDS:
        faults = make_schedule(180, seed, workers)
        assert all(1 <= fault.worker <= workers for fault in faults if fault.kind is not Kind.REDIS)
        for fault in faults:
            hurt = {other.worker for other in faults if is_hurt(other, fault.at_s)} - {0}
            assert workers - len(hurt) >= min(2, workers - 1)


def is_hurt(fault: Fault, at_s: float) -> bool:
    return fault.at_s <= at_s <= fault.end_s


def test_lengths_are_those_that_are_promised() -> None:
    stops = [
        fault.for_s for seed in SEEDS for fault in make_schedule(180, seed, 4) if fault.kind is Kind.STOP
    ]
    outages = [fault.for_s for seed in SEEDS for fault in make_schedule(180, seed, 4) if fault.worker == 0]
    assert 1 <= min(stops) < 2 < 28 < max(stops) <= 30
    assert min(outages) < 1 < 25 < max(outages) <= 30


def test_a_long_run_has_one_outage_of_two_minutes() -> None:
    for seed in range(20):
        assert [f.for_s for f in make_schedule(1800, seed, 4)].count(LONG_OUTAGE_S) == 1


def test_cuts_end_in_late_delivery_or_in_a_reset() -> None:
    ends = {f.how for seed in SEEDS for f in make_schedule(180, seed, 4) if f.kind is Kind.CUT}
    assert ends == {"resume", "reset"}


EXPECTED = [
    "    3.3 s  redis redis for 1.2 s (term)",
    "   18.4 s  kill  worker3",
    "   21.7 s  stop  worker4 for 1.6 s",
]
