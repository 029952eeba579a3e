"""A trace in the time of a simulated fleet: speed, scale, rounds, and who plays it."""

from __future__ import annotations

import pytest

from app.errors import UsageError
from app.simulation.fleet_plan import GIB, plan_fleet, with_traces
from app.simulation.played_trace import PlayedTrace, TraceChoice, players
from app.simulation.profiles import Profile, Workload, demand_at
from app.simulation.trace import Trace, step_means

TRACE = Trace("t", (7_000, 307_000, 607_000), (10.0, 20.0, 40.0))
_OTHER = Trace("u", (0,), (55.0,))


def test_at_speed_one_a_value_holds_as_long_as_in_the_trace_and_the_trace_begins_again() -> None:
    played = PlayedTrace(TRACE, 1.0)
    ages = (0, 299, 300, 599, 600, 899, 900, 1_200)
    assert [played.mean(age) for age in ages] == [10, 10, 20, 20, 40, 40, 10, 20]


def test_at_half_speed_everything_takes_twice_as_long() -> None:
    played = PlayedTrace(TRACE, 0.5)
    assert [played.mean(age) for age in (0, 599, 600, 1_799, 1_800)] == [10, 10, 20, 40, 10]


@pytest.mark.parametrize("speed", [1.0, 7.0, 299.0, 450.0, 900.0])
def test_what_a_second_shows_is_the_mean_of_what_it_plays(speed: float) -> None:
    played = PlayedTrace(TRACE, speed)
    count = int(900 // speed)
    expected = step_means(TRACE, TRACE.begin_ms, int(speed * 1000), count)
    assert [played.mean(age) for age in range(count)] == pytest.approx(expected)


@pytest.mark.parametrize("speed", [0.37, 130.0, 1_234.5, 1e6])
def test_no_load_is_lost_at_any_speed(speed: float) -> None:
    played = PlayedTrace(TRACE, speed)
    seconds = 9_000
    tail = 900 / speed + 1
    assert sum(map(played.mean, range(seconds))) / seconds == pytest.approx(
        70 / 3, abs=40 * tail / seconds + 1e-6
    )


def test_a_trace_of_nothing_is_a_demand_of_nothing_and_a_gap_holds_its_value() -> None:
    assert PlayedTrace(Trace("z", (0, 1), (0.0, 0.0)), 1e6).mean(123.0) == 0.0
    gap = PlayedTrace(Trace("g", (0, 1_000, 2_000, 90_000), (1.0, 1.0, 5.0, 9.0)), 1.0)
    assert [gap.mean(age) for age in (2, 60, 89, 90)] == [5, 5, 5, 9]


def test_the_demand_is_the_value_of_the_trace_cpus_and_the_memory_constant() -> None:
    played = PlayedTrace(TRACE, 300.0)
    workload = Workload(Profile.SPIKE, 1, "web", 4.0, float(8 * GIB), played=played, played_cpus=2.0)
    demands = [demand_at(workload, age) for age in range(4)]
    assert [each.cpu for each in demands] == pytest.approx([0.2, 0.4, 0.8, 0.2])
    assert len({each.mem_bytes for each in demands}) == 1
    assert workload.kind == "trace"


def test_a_share_of_the_vms_plays_evenly_spread_and_exactly_so_many() -> None:
    keys = [f"sim/vm-{number:03}" for number in range(100)]
    for share in (0.0, 0.01, 0.29, 0.5, 1.0):
        playing, unknown = players(TraceChoice((TRACE,), share=share), keys)
        assert (len(playing), unknown) == (round(100 * share), ())
    assert list(players(TraceChoice((TRACE,), share=0.5), keys[:6])[0]) == [keys[1], keys[3], keys[5]]


def test_named_vms_play_the_traces_in_turn_on_their_own_maximum_and_others_none() -> None:
    plans = plan_fleet(6, 1)
    names = (plans[0].name, plans[3].key, plans[5].name)
    changed = with_traces(plans, TraceChoice((TRACE, _OTHER), names=names))
    assert [plan.workload.kind == "trace" for plan in changed] == [True, False, False, True, False, True]
    assert changed[1] == plans[1]
    percents = [demand_at(changed[at].workload, 0).cpu for at in (0, 3, 5)]
    assert percents == pytest.approx([0.4, 2.2, 0.4])
    scaled = with_traces(plans, TraceChoice((_OTHER,), milli_cpus=500))
    assert demand_at(scaled[0].workload, 0).cpu == pytest.approx(0.275)


def test_a_name_that_no_vm_has_is_told() -> None:
    with pytest.raises(UsageError, match="no such VM: 'web-999'"):
        with_traces(plan_fleet(6, 1), TraceChoice((TRACE,), names=("web-999",)))
