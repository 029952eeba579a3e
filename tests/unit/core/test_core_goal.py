from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from app.core import events
from app.core.goal import BEYOND_ALL, cpu_goal, desired_resources, mem_goal, round_half_away
from app.core.model import Metrics, Mode, ScalingConfig
from app.core.resources import resources
from tests.core_builders import (
    GIB,
    UNIT,
    a_config,
    a_new_state,
    a_sample,
    a_settled_state,
    a_vm,
    after,
    at,
    with_load,
)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.0, 0),
        (0.49999999999999994, 0),
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (2.4999999999999996, 2),
        (4503599627370497.5, 4503599627370498),
        (9007199254740993.0, 9007199254740992),
        (1e300, int(1e300)),
        (math.inf, BEYOND_ALL),
    ],
)
def test_halves_are_rounded_away_from_zero_exactly(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded


@pytest.mark.parametrize(("unit_cpu", "units"), [(250, 18), (500, 9), (1000, 4)])
def test_the_unit_changes_the_grain_and_not_the_need(unit_cpu: int, units: int) -> None:
    found = cpu_goal(a_sample(4.0), ScalingConfig(0.9, 0.5), resources(unit_cpu, 1))
    assert found == units
    assert abs(found * unit_cpu / 1000 - 4.0 / 0.9) <= unit_cpu / 2000


def test_memory_is_exact_beyond_what_a_double_can_hold() -> None:
    used = float(2**70)
    found = mem_goal(Metrics(0, 0, used), ScalingConfig(0.5, 0.5), resources(1, 3), 7)
    assert found == Fraction(2**71, 21).__floor__()


def test_memory_is_rounded_down_to_units_after_its_bytes_are_rounded() -> None:
    scaling = ScalingConfig(1.0, 0.75)
    just_below, exactly = 3.0 * GIB - 1, 3.0 * GIB
    assert mem_goal(Metrics(0, 0, just_below), scaling, UNIT, GIB) == 3
    assert mem_goal(Metrics(0, 0, exactly), scaling, UNIT, GIB) == 4


@pytest.mark.parametrize("target", [5e-324, 1e-300])
def test_a_tiny_target_asks_for_everything_and_gets_the_maximum(target: float) -> None:
    vm = a_vm(scaling_config=ScalingConfig(target, target))
    state = after(a_settled_state(vm), with_load(3e38, 1e29))
    assert desired_resources(state, at(1)).resources == vm.max


def test_without_a_compute_unit_the_size_stays() -> None:
    state = after(a_new_state(), with_load(9.0, 9.0))
    assert desired_resources(state, at(0)).resources == state.vm.use


def test_without_a_sample_the_size_stays_within_its_bounds() -> None:
    assert desired_resources(a_settled_state(), at(0)).resources == resources(1_000, 4)
    lowered = after(a_settled_state(), events.UpdatedVm(a_vm(max=resources(500, 2))))
    assert desired_resources(lowered, at(0)).resources == resources(500, 2)


def test_the_larger_goal_counts_for_both_fields() -> None:
    assert desired_resources(after(a_settled_state(), with_load(1.0, 0.5)), at(0)).resources == resources(
        2_000, 8
    )
    assert desired_resources(after(a_settled_state(), with_load(0.1, 5.0)), at(0)).resources == resources(
        2_500, 10
    )


def test_crossed_bounds_end_at_the_minimum() -> None:
    vm = a_vm(min=resources(3_000, 12), max=resources(500, 2))
    state = after(a_settled_state(vm), with_load(0.0))
    assert desired_resources(state, at(0)).resources == resources(3_000, 12)


def test_its_own_targets_win_over_the_default_ones() -> None:
    state = after(a_settled_state(a_vm(scaling_config=ScalingConfig(1.0, 0.5))), with_load(1.0))
    assert desired_resources(state, at(0)).resources == resources(1_000, 4)


def test_a_requested_upscale_raises_the_goal_until_it_expires() -> None:
    asked = events.MonitorUpscaleRequested(at(0), cpu=False, memory=True)
    state = after(a_settled_state(), with_load(0.1), asked)
    raised = desired_resources(state, at(9_999))
    assert raised.resources == resources(1_250, 5)
    assert raised.wait(at(9_999), is_monitor_busy=True) == 1
    expired = desired_resources(state, at(10_000))
    assert expired.resources == resources(250, 1)
    assert expired.wait(at(10_000), is_monitor_busy=False) is None


def test_a_requested_upscale_of_nothing_changes_nothing() -> None:
    asked = events.MonitorUpscaleRequested(at(0), cpu=False, memory=False)
    state = after(a_settled_state(), with_load(0.1), asked)
    goal = desired_resources(state, at(1))
    assert goal.resources == resources(250, 1)
    assert goal.requested_until is None


def test_a_requested_upscale_below_the_goal_asks_for_no_wait() -> None:
    asked = events.MonitorUpscaleRequested(at(0), cpu=True, memory=True)
    state = after(a_settled_state(), with_load(2.0), asked)
    assert desired_resources(state, at(1)).wait(at(1), is_monitor_busy=False) is None


def test_a_denied_downscale_is_kept_above_even_beyond_the_maximum() -> None:
    state = after(
        a_settled_state(),
        with_load(0.1),
        events.MonitorStartingDownscale(at(0), resources(500, 2)),
        events.MonitorDownscaleDenied(at(0)),
        events.UpdatedVm(a_vm(max=resources(500, 2))),
    )
    goal = desired_resources(state, at(7_999))
    assert goal.bounded == resources(500, 2)
    assert goal.resources == resources(750, 3)
    assert goal.wait(at(7_999), is_monitor_busy=False) == 1
    assert goal.wait(at(7_999), is_monitor_busy=True) is None
    assert desired_resources(state, at(8_000)).resources == resources(250, 1)


def test_a_denial_never_asks_for_more_than_was_approved_then() -> None:
    state = after(
        a_settled_state(a_vm(max=resources(900, 3))),
        with_load(0.1),
        events.MonitorStartingDownscale(at(0), resources(900, 3)),
        events.MonitorDownscaleDenied(at(0)),
    )
    assert desired_resources(state, at(1)).resources == resources(1_000, 4)


def test_the_two_raises_are_judged_against_the_initial_goal_each() -> None:
    state = after(
        a_settled_state(),
        with_load(0.1),
        events.MonitorUpscaleRequested(at(0), cpu=True, memory=True),
        events.MonitorStartingDownscale(at(0), resources(250, 1)),
        events.MonitorDownscaleDenied(at(0)),
    )
    goal = desired_resources(state, at(0))
    assert (goal.requested_units, goal.denied_units, goal.goal) == (5, 2, 5)
    assert goal.wait(at(0), is_monitor_busy=False) == 8_000
    assert goal.wait(at(0), is_monitor_busy=True) == 10_000


def test_an_observed_vm_uses_the_given_unit_only_where_none_was_told() -> None:
    observed = events.ModeChanged(Mode.OBSERVE, resources(500, 2))
    untold = after(a_new_state(), observed, with_load(0.5))
    assert desired_resources(untold, at(0)).resources == resources(1_000, 4)
    assert desired_resources(untold, at(0)).unit == resources(500, 2)
    assert desired_resources(after(a_settled_state(), observed), at(0)).unit == UNIT


def test_a_slot_of_another_size_changes_the_memory_goal_only() -> None:
    state = after(a_settled_state(), with_load(0.1, 2.0))
    smaller = replace(state, vm=replace(state.vm, slot_bytes=GIB // 2), config=a_config())
    assert desired_resources(state, at(0)).mem_units == 4
    assert desired_resources(smaller, at(0)).mem_units == 8
