"""The model of a simulated VM, its profiles, the plan of a fleet and the faults."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from app.core.resources import Resources, resources
from app.simulation.faults import Fault, FaultBoard
from app.simulation.fleet_plan import GIB, MAX_SIZE, MIN_SIZE, VmPlan, plan_fleet
from app.simulation.noise import noise
from app.simulation.profiles import DAY_S, Demand, Profile, Workload, demand_at
from app.simulation.vm_model import VmModel

_WORKLOAD = Workload(Profile.STEADY, 7, "vm", 4.0, float(8 * GIB))


def _model(size: Resources, demand: Demand) -> VmModel:
    model = VmModel(_WORKLOAD, size, GIB)
    model.override_demand(demand)
    return model


def test_noise_is_the_same_for_the_same_arguments_and_spread_over_different_ones() -> None:
    assert noise(1, "a", 2) == noise(1, "a", 2)
    assert noise(1, "ab", "c") != noise(1, "a", "bc")
    values = [noise(3, number) for number in range(2_000)]
    assert all(0 <= value < 1 for value in values)
    assert 0.45 < sum(values) / len(values) < 0.55


@pytest.mark.parametrize("profile", list(Profile))
def test_a_profile_depends_on_seed_name_and_age_only(profile: Profile) -> None:
    one = Workload(profile, 5, "a", 4.0, float(8 * GIB))
    same = [demand_at(one, age) for age in range(300)]
    assert same == [demand_at(one, age) for age in range(300)]
    assert same != [demand_at(Workload(profile, 6, "a", 4.0, float(8 * GIB)), age) for age in range(300)]
    assert all(0 < each.cpu < 5 and 0 < each.mem_bytes <= 8 * GIB for each in same)


def test_a_spike_begins_within_the_first_seconds_and_ends_within_a_minute() -> None:
    for seed in range(30):
        workload = Workload(Profile.SPIKE, seed, "web", 4.0, float(8 * GIB))
        ages = [age for age in range(60) if demand_at(workload, age).cpu > 1.5]
        assert 3 <= ages[0] <= 13
        assert ages[-1] < 50
        assert len(ages) >= 18


def test_a_leak_grows_and_falls_back() -> None:
    workload = Workload(Profile.LEAK, 4, "app", 4.0, float(8 * GIB))
    memory = [demand_at(workload, age).mem_bytes for age in range(500)]
    falls = [after for before, after in itertools.pairwise(memory) if after < before]
    assert 1 <= len(falls) <= 6
    assert max(memory) > 5 * GIB


def test_the_daily_wave_rises_and_falls_once_a_day() -> None:
    workload = Workload(Profile.DAILY, 3, "shop", 4.0, float(8 * GIB))
    day = [demand_at(workload, age) for age in range(int(DAY_S))]
    highest = max(range(len(day)), key=lambda age: day[age].mem_bytes)
    lowest = min(range(len(day)), key=lambda age: day[age].mem_bytes)
    assert abs(abs(highest - lowest) - DAY_S / 2) <= 1
    assert day[highest].cpu > 8 * day[lowest].cpu
    turns = zip(day, day[1:] + day[:1], day[2:] + day[:2], strict=True)
    assert sum(a.mem_bytes < b.mem_bytes >= c.mem_bytes for a, b, c in turns) == 1
    next_day = demand_at(workload, DAY_S + highest)
    assert next_day.mem_bytes == pytest.approx(day[highest].mem_bytes)


def test_flapping_jumps_between_two_levels_at_its_own_beat() -> None:
    workload = Workload(Profile.FLAPPING, 3, "batch", 4.0, float(8 * GIB))
    memory = [demand_at(workload, age).mem_bytes for age in range(1_000)]
    assert len(set(memory)) == 2
    jumps = [age for age, (a, b) in enumerate(itertools.pairwise(memory)) if a != b]
    assert 10 < len(jumps) < 100
    assert min(b - a for a, b in itertools.pairwise(jumps)) >= 9
    cpu = [demand_at(workload, age).cpu for age in range(1_000)]
    assert all((low < 0.5) == (held == min(memory)) for low, held in zip(cpu, memory, strict=True))


def test_how_often_a_model_is_asked_does_not_change_it() -> None:
    often, seldom = (
        VmModel(Workload(Profile.FLAPPING, 2, "b", 4.0, float(8 * GIB)), resources(500, 2), GIB) for _ in "ab"
    )
    for tenth in range(1, 1_001):
        often.advance_to(tenth / 10)
    seldom.advance_to(100.0)
    assert often.load.load1 == pytest.approx(seldom.load.load1, rel=1e-6)
    assert often.used_bytes == pytest.approx(seldom.used_bytes, rel=1e-6)


def test_time_that_goes_back_changes_nothing() -> None:
    model = _model(resources(1000, 2), Demand(0.5, GIB))
    model.advance_to(10)
    before = (model.load, model.used_bytes)
    model.advance_to(3)
    assert (model.load, model.used_bytes, model.age_s) == (*before, 10)


def test_memory_in_use_follows_the_demand_with_a_delay_and_never_exceeds_what_was_granted() -> None:
    model = _model(resources(1000, 8), Demand(0.5, 0.5 * GIB))
    model.advance_to(60)
    model.override_demand(Demand(0.5, 20.0 * GIB))
    model.advance_to(61)
    assert GIB < model.used_bytes < 6 * GIB
    model.advance_to(120)
    assert model.used_bytes < model.total_bytes
    assert model.available_bytes == model.total_bytes - model.used_bytes > 0


def test_total_memory_follows_the_grant() -> None:
    model = _model(resources(1000, 8), Demand(0.5, 4.0 * GIB))
    model.advance_to(60)
    total = model.total_bytes
    model.grant(resources(1000, 2))
    assert model.total_bytes == pytest.approx(total / 4, abs=2)
    assert model.used_bytes < model.total_bytes


def test_a_starved_vm_shows_more_load_than_its_demand() -> None:
    model = _model(resources(500, 2), Demand(2.0, GIB))
    model.advance_to(60)
    assert model.load.load1 > 2.0
    model.grant(resources(4000, 2))
    model.advance_to(500)
    assert model.load.load1 == pytest.approx(2.0, abs=0.1)


def _settle(first: Resources, demand: float) -> int:
    """CPU units after ten minutes of the core's rule: round(load / 0.9 / unit)."""
    model = _model(first, Demand(demand, 0.1 * GIB))
    for age in range(5, 2_400, 5):
        model.advance_to(age)
        units = max(1, min(16, int(model.load.load1 / 0.9 / 0.25 + 0.5)))
        model.grant(resources(250 * units, 2))
    return model.granted.cpu // 250


@pytest.mark.parametrize("demand", [0.05, 0.7, 1.3, 2.0, 2.9])
def test_a_constant_load_from_above_and_from_below_ends_at_the_same_size(demand: float) -> None:
    assert abs(_settle(MIN_SIZE, demand) - _settle(MAX_SIZE, demand)) <= 1


def test_the_plan_is_fixed_by_its_seed_and_the_first_vms_do_not_depend_on_the_count() -> None:
    assert plan_fleet(20, 9) == plan_fleet(20, 9)
    assert plan_fleet(20, 9)[:5] == plan_fleet(5, 9)
    assert plan_fleet(20, 9) != plan_fleet(20, 10)


def test_every_profile_is_there_with_a_dozen_vms_in_the_weights_of_the_mix() -> None:
    counts = Counter(plan.workload.profile for plan in plan_fleet(120, 1))
    assert counts[Profile.STEADY] == counts[Profile.SPIKE] == 30
    assert counts[Profile.DAILY] == counts[Profile.FLAPPING] == 10
    assert len(Counter(plan.workload.profile for plan in plan_fleet(12, 1))) == 6


def test_first_sizes_are_within_the_bounds_and_idle_vms_begin_too_large() -> None:
    for plan in plan_fleet(200, 3, nodes=3):
        assert not plan.first.has_field_below(MIN_SIZE)
        assert not plan.first.has_field_above(MAX_SIZE)
        assert plan.first.cpu % 250 == 0
        if plan.workload.profile is Profile.IDLE:
            assert plan.first.cpu >= 1500


def test_names_nodes_and_keys_are_readable() -> None:
    plans: tuple[VmPlan, ...] = plan_fleet(6, 1, nodes=3)
    assert [plan.node for plan in plans[:4]] == ["sim-node-1", "sim-node-2", "sim-node-3", "sim-node-1"]
    assert len({plan.key for plan in plans}) == 6
    assert all(plan.key.startswith("sim/") for plan in plans)


def test_a_mix_without_weight_is_refused() -> None:
    with pytest.raises(ValueError):
        plan_fleet(3, 1, mix={Profile.IDLE: 0})


def test_a_fault_for_all_for_a_fraction_and_for_names() -> None:
    board = FaultBoard(1)
    names = [f"sim/vm-{number}" for number in range(400)]
    board.switch_on(Fault.SLOW_PAGE)
    assert all(board.is_on(Fault.SLOW_PAGE, name) for name in names)
    board.switch_on(Fault.SLOW_PAGE, fraction=0.25)
    chosen = {name for name in names if board.is_on(Fault.SLOW_PAGE, name)}
    assert 60 < len(chosen) < 140
    board.switch_on(Fault.BROKEN_PAGE, names=["sim/vm-1"])
    assert [name for name in names if board.is_on(Fault.BROKEN_PAGE, name)] == ["sim/vm-1"]


def test_switching_off_by_name_leaves_the_others_on() -> None:
    board = FaultBoard(1)
    board.switch_on(Fault.MONITOR_DENIES, names=["a", "b"])
    board.switch_off(Fault.MONITOR_DENIES, names=["a"])
    assert board.facts() == {"monitor-denies": {"fraction": 0.0, "names": ["b"]}}
    board.switch_off(Fault.MONITOR_DENIES)
    assert not board.is_on(Fault.MONITOR_DENIES, "b")
    assert board.facts() == {}


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
def test_a_fraction_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError):
        FaultBoard(1).switch_on(Fault.SLOW_PAGE, fraction=fraction)
