"""The properties of `spec/core.md`, "Properties that always hold", over whole conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import events
from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.events import Event
from app.core.explain import explain
from app.core.goal import desired_resources
from app.core.invariants import broken_invariants
from app.core.model import CoreConfig, CoreVm, Millis
from app.core.resources import Resources, resources
from app.core.snapshot import from_snapshot, to_snapshot
from app.core.state import State, initial_state
from app.core.transition import apply
from tests.property.core_strategies import (
    Answer,
    Follow,
    Move,
    Wait,
    amounts,
    answers,
    configs,
    moves,
    starts,
    units,
    vms,
    wild_moves,
)

T0 = Millis(1_000_000)


def states_of(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> Iterator[tuple[State, Millis, ActionSet]]:
    """Every state that a conversation goes through, with the decision in it."""
    state, now = initial_state(vm, config), T0
    opening: list[Event] = [events.PluginNewScheduler(), events.MonitorActive(True)]
    for event in opening:
        state = apply(state, event).state
    yield state, now, next_actions(state, now)
    for move in script:
        if isinstance(move, Wait):
            now = Millis(now + move.milliseconds)
            happenings: list[Event] = []
        elif isinstance(move, Follow):
            happenings = starts(move, now, next_actions(state, now))
        elif isinstance(move, Answer):
            happenings = answers(state, move, now, unit)
        else:
            happenings = [move(now)]
        for event in happenings:
            state = take(state, event)
            yield state, now, next_actions(state, now)
        if not happenings:
            yield state, now, next_actions(state, now)


def take(state: State, event: Event) -> State:
    """Apply an event; a refused one must leave the state alone, but for a bad answer of the scheduler."""
    outcome = apply(state, event)
    if outcome.refused is not None and outcome.state is not state:
        assert isinstance(event, events.PluginSuccessful)
        assert state.plugin.ongoing
        assert not outcome.state.plugin.ongoing
        assert outcome.state.plugin.failed_at == event.now
        assert outcome.state.plugin.permit == state.plugin.permit
    return outcome.state


@settings(max_examples=200, deadline=None)
@given(vms, configs, units, moves)
def test_no_decision_breaks_a_property_whatever_the_counterparts_do(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        assert broken_invariants(state, now, actions) == []


@settings(max_examples=200, deadline=None)
@given(vms, configs, units, wild_moves)
def test_no_decision_breaks_a_property_whatever_nonsense_is_told(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        assert broken_invariants(state, now, actions) == []


@settings(max_examples=100, deadline=None)
@given(vms, configs, units, moves)
def test_no_field_is_asked_away_from_the_desired_size(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        desired = desired_resources(state, now).resources
        assert actions.desired == desired
        if actions.platform is not None:
            assert lies_between(state.vm.use, actions.platform.target, desired)
        if actions.monitor_downscale is not None:
            assert lies_between(actions.monitor_downscale.current, actions.monitor_downscale.target, desired)
        if actions.monitor_upscale is not None:
            assert lies_between(actions.monitor_upscale.current, actions.monitor_upscale.target, state.vm.use)


def lies_between(start: Resources, between: Resources, end: Resources) -> bool:
    low, high = start.min(end), start.max(end)
    return not between.has_field_below(low) and not between.has_field_above(high)


@settings(max_examples=100, deadline=None)
@given(vms, configs, units, wild_moves)
def test_a_requests_start_is_always_taken_and_ends_the_wish_for_it(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        for event in starts(Follow(is_reversed=False), now, actions):
            outcome = apply(state, event)
            assert outcome.refused is None
            again = next_actions(outcome.state, now)
            assert not {type(begun) for begun in starts(Follow(False), now, again)} & {type(event)}


@settings(max_examples=100, deadline=None)
@given(vms, configs, units, wild_moves)
def test_at_the_end_of_its_wait_something_is_different(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        if actions.wait is not None:
            later = next_actions(state, Millis(now + actions.wait))
            assert later.wait is None or later != actions


@settings(max_examples=100, deadline=None)
@given(vms, configs, units, wild_moves)
def test_a_snapshot_brings_back_the_state_and_its_decisions(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, actions in states_of(vm, config, unit, script):
        stored = json.dumps(to_snapshot(state), allow_nan=False)
        loaded = from_snapshot(json.loads(stored), now)
        assert loaded == state
        assert next_actions(loaded, now) == actions


@settings(max_examples=100, deadline=None)
@given(vms, configs, units, wild_moves, st.integers(0, 10**6))
def test_a_snapshot_from_an_earlier_clock_holds_no_time_in_the_future(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move], earlier: int
) -> None:
    *_, (state, _, _) = states_of(vm, config, unit, script)
    now = Millis(earlier)
    loaded = from_snapshot(to_snapshot(state), now)
    assert loaded == from_snapshot(to_snapshot(loaded), now)
    kept = json.dumps(to_snapshot(loaded)["plugin"]) + json.dumps(to_snapshot(loaded)["monitor"])
    assert all(int(text.split(",")[0].rstrip("}")) <= now for text in times_in(kept))
    assert broken_invariants(loaded, now, next_actions(loaded, now)) == []


def times_in(text: str) -> list[str]:
    return [part for part in text.split('at_ms": ')[1:] if not part.startswith("null")]


@settings(max_examples=50, deadline=None)
@given(vms, configs, units, wild_moves)
def test_every_state_can_be_explained(
    vm: CoreVm, config: CoreConfig, unit: Resources, script: list[Move]
) -> None:
    for state, now, _ in states_of(vm, config, unit, script):
        said = explain(state, now)
        assert any(line.startswith("desired: ") for line in said)
        assert all(line and "\n" not in line for line in said)


@settings(max_examples=100, deadline=None)
@given(vms, amounts, amounts, amounts, amounts, amounts, configs)
def test_bounds_permit_approval_and_use_in_any_order_break_nothing(
    vm: CoreVm,
    permit: Resources,
    approved: Resources,
    ongoing: Resources,
    low: Resources,
    high: Resources,
    config: CoreConfig,
) -> None:
    state = initial_state(replace(vm, min=low, max=high), config)
    state = apply(state, events.PluginNewScheduler()).state
    unit = vm.use.max(resources(1, 1))
    for in_flight in (None, ongoing):
        bent = replace(
            state,
            plugin=replace(state.plugin, permit=permit, compute_unit=unit),
            monitor=replace(state.monitor, approved=approved),
            platform=replace(state.platform, ongoing=in_flight),
        )
        assert broken_invariants(bent, T0, next_actions(bent, T0)) == []
