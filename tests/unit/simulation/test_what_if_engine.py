"""A load played in virtual time: where it ends, what is counted, what chance does."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import pytest

from app.core.resources import resources
from app.simulation.cost import Counts
from app.simulation.scenario import Delays, FailureRates
from app.simulation.virtual_vm import VirtualVm
from app.simulation.what_if_engine import VmOutcome, run_scenario
from tests.what_if_builders import GIB, UNIT, a_control, a_scenario, a_vm

DAY = [0.2] * 40 + [2.6] * 60 + [1.1] * 80 + [3.9] * 30 + [0.2] * 90


def units_at_end(outcome: VmOutcome, unit_cpu: int) -> float:
    return outcome.timeline.cpu[-1] / unit_cpu


@pytest.mark.parametrize("unit_cpu", [250, 500, 1_000])
@pytest.mark.parametrize("load_target", [0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("cpu", [0.1, 0.33, 0.9, 1.6, 2.9, 3.7])
def test_a_constant_load_ends_at_the_same_size_from_above_and_from_below(
    unit_cpu: int, load_target: float, cpu: float
) -> None:
    unit, most = resources(unit_cpu, 1), resources(unit_cpu * 16, 16)
    ends = []
    for first in (unit, most):
        vm = a_vm([cpu] * 120, min=unit, max=most, first=first)
        (outcome,) = run_scenario(a_scenario(vm, control=a_control(unit=unit, load_target=load_target)))
        ends.append(units_at_end(outcome, unit_cpu))
    assert abs(ends[0] - ends[1]) <= 1


@pytest.mark.parametrize("mem_gib", [1.4, 3.5, 6.0])
def test_constant_memory_ends_at_the_same_size_from_above_and_from_below(mem_gib: float) -> None:
    vms = [a_vm([0.2] * 120, mem_gib, first=first) for first in (UNIT, resources(4_000, 16))]
    ends = [run_scenario(a_scenario(vm))[0].timeline.mem[-1] / GIB for vm in vms]
    assert abs(ends[0] - ends[1]) <= 1
    assert min(ends) >= mem_gib


def test_the_size_follows_the_load_up_and_down() -> None:
    (outcome,) = run_scenario(a_scenario(a_vm(DAY)))
    cpu = outcome.timeline.cpu
    assert cpu[39] == 250
    assert cpu[99] == 3_000
    assert cpu[209] == 4_000
    assert cpu[-1] == 250
    assert outcome.figures.upscales > 0
    assert outcome.figures.downscales > 0


def test_the_timeline_adds_up_to_the_figures() -> None:
    (outcome,) = run_scenario(a_scenario(a_vm(DAY)))
    course, figures = outcome.timeline, outcome.figures
    assert sum(course.cpu) / 1000 * 30 / 3_600 == pytest.approx(figures.cpu.allocated)
    assert sum(course.mem) / GIB * 30 / 3_600 == pytest.approx(figures.mem.allocated)
    assert sum(course.short_ms) == figures.short_ms
    assert figures.cpu.demand == pytest.approx(sum(DAY) * 30 / 3_600)


def test_a_jump_is_short_until_the_load_average_shows_it() -> None:
    (outcome,) = run_scenario(a_scenario(a_vm([0.2] * 10 + [3.0] * 30)))
    figures = outcome.figures
    assert 0 < figures.longest_ms < 120_000
    assert figures.short_cpu_ms == figures.short_ms
    assert figures.cpu.missing > 0


def test_a_vm_at_its_maximum_is_short_for_as_long_as_more_is_wanted() -> None:
    vm = a_vm([6.0] * 20, first=resources(4_000, 16))
    (outcome,) = run_scenario(a_scenario(vm))
    assert outcome.figures.short_ms == outcome.figures.longest_ms == 20 * 30_000
    assert outcome.figures.cpu.missing == pytest.approx(2.0 * 20 * 30 / 3_600)
    assert outcome.figures.cpu.clairvoyant == outcome.figures.cpu.fixed


def test_memory_that_grows_is_granted_at_the_monitors_request() -> None:
    growing = [0.4 + 0.05 * number for number in range(200)]
    (outcome,) = run_scenario(a_scenario(a_vm([0.2] * 200, growing)))
    assert outcome.timeline.mem[-1] >= growing[-1] * GIB
    assert outcome.figures.short_mem_ms < 60_000


def test_a_full_node_is_never_given_out_beyond_its_capacity() -> None:
    vms = [a_vm([3.0] * 60), a_vm([3.0] * 60), a_vm([0.2] * 30 + [3.0] * 30)]
    outcomes = run_scenario(a_scenario(*vms, node_cpu=5_000))
    sums = [sum(step) for step in zip(*(outcome.timeline.cpu for outcome in outcomes), strict=True)]
    assert max(sums) <= 5_000
    assert sum(outcome.figures.permits_cut for outcome in outcomes) > 0


def test_what_one_vm_gives_back_another_one_gets() -> None:
    vms = [a_vm([3.6] * 60 + [0.2] * 60), a_vm([3.0] * 120)]
    first, second = run_scenario(a_scenario(*vms, node_cpu=5_000))
    assert first.timeline.cpu[-1] == 250
    assert second.timeline.cpu[-1] >= 3_000


@pytest.mark.parametrize(
    ("node_cpu", "mem_gib"), [(1_000_000, 0.4), (1_000_000, 1.4), (5_000, 0.4), (5_000, 3.5)]
)
def test_rests_are_played_as_if_the_core_had_been_asked_each_time(
    node_cpu: int, mem_gib: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    vms = [a_vm(DAY[away:] + DAY[:away], mem_gib) for away in (0, 50, 130)]
    scenario = a_scenario(*vms, node_cpu=node_cpu)
    played = run_scenario(scenario)
    # Without a number of units no poll is passed over and no rest begins.
    monkeypatch.setattr(VirtualVm, "_units", lambda vm: None)
    asked = run_scenario(scenario)
    assert [vm.figures for vm in played] == [vm.figures for vm in asked]
    assert [vm.timeline.cpu for vm in played] == [vm.timeline.cpu for vm in asked]


@pytest.mark.parametrize("rate", ["poll", "permit", "resize", "monitor", "denial"])
def test_failures_are_chosen_by_the_seed_and_survived(rate: str) -> None:
    rates = FailureRates(**{rate: 0.3})
    runs = [
        run_scenario(a_scenario(a_vm(DAY), control=a_control(rates=rates, seed=seed))) for seed in (1, 1, 2)
    ]
    first, again, other = (json.dumps([asdict(vm.figures) for vm in run]) for run in runs)
    assert first == again
    assert first != other
    figures = runs[0][0].figures
    assert figures.failures + figures.denied > 0
    assert runs[0][0].timeline.cpu[99] == 3_000


def test_slow_resizes_cost_time_with_less_than_needed() -> None:
    quick, slow = (
        run_scenario(a_scenario(a_vm(DAY), control=a_control(delays=Delays(resize=delay))))[0]
        for delay in (0, 60_000)
    )
    assert slow.figures.short_ms > quick.figures.short_ms


def test_direction_changes_are_counted_between_resizes_of_opposite_ways() -> None:
    counts = Counts()
    sizes = [resources(250 * units, units) for units in (1, 2, 4, 3, 2, 5, 5, 1)]
    for before, after in itertools.pairwise(sizes):
        if before != after:
            counts.resized(before, after)
    assert (counts.upscales, counts.downscales, counts.direction_changes) == (3, 3, 3)
