"""Apply events to a state (`spec/core.md`, "Events").

Total: an event that makes no sense is refused with a text, and the state stays as it was. The one exception
is a scheduler's answer that breaks a rule: it counts as a failure of that request, so the state changes too.
The scheduler's events are in `plugin_transition`, the monitor's in `monitor_transition`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from app.core.events import (
    Event,
    MetricsArrived,
    ModeChanged,
    PlatformFailed,
    PlatformObserved,
    PlatformStarting,
    PlatformSuccessful,
    UpdatedVm,
)
from app.core.model import Mode
from app.core.monitor_transition import MonitorEvent, apply_to_monitor
from app.core.plugin_transition import PluginEvent, apply_to_plugin
from app.core.state import PlatformState, State, metrics_problem, unit_problem, vm_problem


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an event.

    Attributes:
        state: the state after it; the very same object if the event was refused and changed nothing.
        refused: why it was refused; None if it was taken.
    """

    state: State
    refused: str | None = None


def apply(state: State, event: Event) -> Outcome:
    """The state after `event`; never raises for an event of any content.

    A sample with a value that can't be believed is refused, so the last good one stays.
    """
    match event:
        case MetricsArrived(metrics):
            problem = None if metrics is None else metrics_problem(metrics)
            return _unless(problem, "metrics", state, replace(state, metrics=metrics))
        case UpdatedVm(vm):
            return _unless(
                vm_problem(vm), "updated vm", state, replace(state, vm=replace(vm, use=state.vm.use))
            )
        case ModeChanged(mode, unit):
            problem = None if unit is None else unit_problem(unit)
            observe_unit = unit if mode is Mode.OBSERVE else None
            changed = replace(state, mode=mode, observe_unit=observe_unit)
            return _unless(problem, "mode: the compute unit", state, changed)
        case PlatformStarting() | PlatformSuccessful() | PlatformFailed() | PlatformObserved():
            return _apply_to_platform(state, event)
        case _:
            pass
    if isinstance(event, PluginEvent):
        plugin, refused = apply_to_plugin(state.plugin, state.vm.use, event)
        return Outcome(state if plugin is state.plugin else replace(state, plugin=plugin), refused)
    if isinstance(event, MonitorEvent):
        monitor, refused = apply_to_monitor(state.monitor, state.vm.use, event)
        return Outcome(state if monitor is state.monitor else replace(state, monitor=monitor), refused)
    assert_never(event)


def _unless(problem: str | None, what: str, state: State, changed: State) -> Outcome:
    return Outcome(changed) if problem is None else Outcome(state, f"{what} {problem}")


def _apply_to_platform(
    state: State, event: PlatformStarting | PlatformSuccessful | PlatformFailed | PlatformObserved
) -> Outcome:
    platform = state.platform
    match event:
        case PlatformStarting(resources):
            if platform.ongoing is not None:
                return Outcome(state, "platform starting: a platform request is already ongoing")
            return Outcome(replace(state, platform=replace(platform, ongoing=resources)))
        case PlatformObserved(_, resources):
            return Outcome(replace(state, vm=replace(state.vm, use=resources)))
        case PlatformSuccessful():
            if platform.ongoing is None:
                return Outcome(state, "platform successful: no platform request is ongoing")
            vm = replace(state.vm, use=platform.ongoing)
            return Outcome(replace(state, vm=vm, platform=replace(platform, ongoing=None)))
        case PlatformFailed(now):
            if platform.ongoing is None:
                return Outcome(state, "platform failed: no platform request is ongoing")
            return Outcome(replace(state, platform=PlatformState(ongoing=None, failed_at=now)))
