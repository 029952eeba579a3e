"""The judge of decisions must be able to condemn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core import events
from app.core.actions import ActionSet, PluginRequest, Resize
from app.core.invariants import broken_invariants
from app.core.model import Millis, Mode
from app.core.resources import Resources, resources
from app.core.state import State
from tests.core_builders import a_new_state, a_settled_state, after, at

USE = resources(1_000, 4)
UP = resources(1_250, 4)
DOWN = resources(1_000, 3)
BUSY = after(
    a_settled_state(),
    events.PluginStarting(at(0), USE),
    events.PlatformStarting(USE),
    events.MonitorStartingUpscale(at(0), USE),
)


def permitted(state: State, size: Resources) -> State:
    return replace(
        state, plugin=replace(state.plugin, permit=size), monitor=replace(state.monitor, approved=size)
    )


def bounded(state: State, low: Resources, high: Resources) -> State:
    return replace(state, vm=replace(state.vm, min=low, max=high))


SETTLED = a_settled_state()
ROOMY = permitted(SETTLED, resources(9_000, 9))
LOW = permitted(SETTLED, resources(1, 1))


@pytest.mark.parametrize(
    ("state", "actions", "complaint"),
    [
        (BUSY, ActionSet(plugin=PluginRequest(None, USE, None)), "a second plugin request"),
        (BUSY, ActionSet(platform=Resize(USE, UP)), "a second platform request"),
        (BUSY, ActionSet(monitor_downscale=Resize(USE, DOWN)), "a second monitor request"),
        (
            SETTLED,
            ActionSet(monitor_upscale=Resize(USE, UP), monitor_downscale=Resize(USE, DOWN)),
            "a monitor downscale beside a planned upscale",
        ),
        (replace(SETTLED, mode=Mode.OBSERVE), ActionSet(wait=Millis(1)), "an observed VM has"),
        (a_new_state(), ActionSet(plugin=PluginRequest(None, USE, None)), "without a scheduler"),
        (a_new_state(), ActionSet(monitor_upscale=Resize(USE, UP)), "without an active monitor"),
        (SETTLED, ActionSet(wait=Millis(0)), "a wait of 0 ms"),
        (SETTLED, ActionSet(platform=Resize(UP, DOWN)), "a resize from"),
        (SETTLED, ActionSet(platform=Resize(USE, UP)), "CPU asked up beyond the permit"),
        (
            SETTLED,
            ActionSet(platform=Resize(USE, DOWN)),
            "memory asked down beyond what the monitor approved",
        ),
        (bounded(ROOMY, USE, USE), ActionSet(platform=Resize(USE, UP)), "CPU asked up beyond its maximum"),
        (
            bounded(LOW, USE, USE),
            ActionSet(platform=Resize(USE, DOWN)),
            "memory asked down beyond its minimum",
        ),
        (SETTLED, ActionSet(monitor_upscale=Resize(USE, UP)), "told of more than is in use"),
        (
            SETTLED,
            ActionSet(monitor_upscale=Resize(USE, DOWN)),
            "a monitor upscale that makes nothing larger",
        ),
        (
            SETTLED,
            ActionSet(monitor_downscale=Resize(USE, UP)),
            "a monitor downscale that makes nothing smaller",
        ),
        (
            bounded(SETTLED, USE, USE),
            ActionSet(monitor_downscale=Resize(USE, DOWN)),
            "downscale beyond the minimum",
        ),
        (
            ROOMY,
            ActionSet(plugin=PluginRequest(None, USE, None), platform=Resize(USE, UP)),
            "the platform is asked for more than the scheduler",
        ),
    ],
)
def test_a_decision_that_breaks_a_property_is_found(state: State, actions: ActionSet, complaint: str) -> None:
    assert any(complaint in line for line in broken_invariants(state, at(1), actions))


def test_a_denial_in_cooldown_may_take_a_vm_above_its_maximum() -> None:
    state = after(
        bounded(ROOMY, USE, USE),
        events.MonitorStartingDownscale(at(0), UP),
        events.MonitorDownscaleDenied(at(0)),
    )
    actions = ActionSet(platform=Resize(USE, UP))
    assert broken_invariants(state, at(7_999), actions) == []
    assert broken_invariants(state, at(8_000), actions) != []
