"""The size that a VM should have (`spec/core.md`, "Desired resources").

Exact: CPU in IEEE doubles as the rule spells it, memory in integers of any size; halves are rounded away
from zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.core.model import Metrics, Millis, ScalingConfig
from app.core.resources import MilliCpu, Resources, Slots
from app.core.state import State

BEYOND_ALL = 2**64
"""Units (or bytes) that stand for a quotient too large for a double; larger than any VM."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired size, and the facts that led to it.

    Attributes:
        resources: the answer.
        unit: compute unit in force; None: not known, so the size in use is desired.
        cpu_units: what the load asks for; None without metrics.
        mem_units: what the memory in use asks for; None without metrics.
        initial: the larger of the two, 0 without metrics.
        goal: units after a requested upscale and a denied downscale have had their say.
        requested_units: what the requested upscale needs, while it is valid.
        denied_units: what the denied downscale needs, while its cooldown lasts.
        unclamped: the goal as resources, before the VM's bounds.
        bounded: the same within the VM's bounds, before a denial raises it above them.
        requested_until: until when the requested upscale holds the goal up; None: it doesn't.
        denied_until: until when the denied downscale holds the size up; None: it doesn't.
    """

    resources: Resources
    unit: Resources | None = None
    cpu_units: int | None = None
    mem_units: int | None = None
    initial: int = 0
    goal: int = 0
    requested_units: int | None = None
    denied_units: int | None = None
    unclamped: Resources | None = None
    bounded: Resources | None = None
    requested_until: Millis | None = None
    denied_until: Millis | None = None

    def wait(self, now: Millis, *, is_monitor_busy: bool) -> Millis | None:
        """Milliseconds until the desired size may change by itself; None: it won't.

        Args:
            is_monitor_busy: a monitor downscale is planned in this set, or any monitor request is ongoing.
        """
        until = None if is_monitor_busy else self.denied_until
        if self.requested_until is not None and (until is None or self.requested_until < until):
            until = self.requested_until
        return None if until is None else Millis(until - now)


def desired_resources(state: State, now: Millis) -> Desired:
    """The size that the VM should have at `now`; what stands in its way is not looked at."""
    unit, vm = state.compute_unit, state.vm
    if unit is None:
        return Desired(vm.use)
    cpu_units = mem_units = None
    initial = 0
    if state.metrics is not None:
        cpu_units = cpu_goal(state.metrics, state.scaling, unit)
        mem_units = mem_goal(state.metrics, state.scaling, unit, vm.slot_bytes)
        initial = max(cpu_units, mem_units)
    goal = initial
    requested_units, requested_end = _requested(state, unit, now)
    if requested_units is not None and requested_units > goal:
        goal = requested_units
    denied_units, denied_end = _denied(state, unit, now)
    if denied_units is not None and denied_units > goal:
        goal = denied_units
    if state.metrics is None and goal == 0:
        unclamped = vm.use
    else:
        unclamped = Resources(MilliCpu(unit.cpu * goal), Slots(unit.mem * goal))
    bounded = unclamped.min(vm.max).max(vm.min)
    resources = bounded if denied_units is None else bounded.max(_denial_floor(state, unit))
    is_requested = requested_units is not None and requested_units > initial
    is_denied = denied_units is not None and (denied_units > initial or resources != bounded)
    return Desired(
        resources,
        unit,
        cpu_units,
        mem_units,
        initial,
        goal,
        requested_units,
        denied_units,
        unclamped,
        bounded,
        requested_end if is_requested else None,
        denied_end if is_denied else None,
    )


def cpu_goal(metrics: Metrics, scaling: ScalingConfig, unit: Resources) -> int:
    """Units that bring the load average per CPU to its target."""
    goal_cpus = metrics.load1 / scaling.load_average_fraction_target
    return round_half_away(goal_cpus / (unit.cpu / 1000))


def mem_goal(metrics: Metrics, scaling: ScalingConfig, unit: Resources, slot_bytes: int) -> int:
    """Units that bring the share of memory in use to its target; rounded down, as the rule says."""
    goal_bytes = round_half_away(metrics.mem_bytes / scaling.memory_usage_fraction_target)
    return goal_bytes // (unit.mem * slot_bytes)


def round_half_away(value: float) -> int:
    """The nearest integer of a value from 0 up, halves upwards; exact, where `int(value + 0.5)` is not."""
    if not math.isfinite(value):
        return BEYOND_ALL
    whole = int(value)
    return whole + 1 if value - whole >= 0.5 else whole


def _requested(state: State, unit: Resources, now: Millis) -> tuple[int | None, Millis | None]:
    """Units that a requested upscale needs, and its end; None once it is over."""
    asked = state.monitor.requested_upscale
    if asked is None:
        return None, None
    end = asked.at + state.config.monitor_requested_upscale_valid_period
    if end <= now:
        return None, None
    units = 0
    if asked.cpu:
        units = 1 + asked.base.cpu // unit.cpu
    if asked.memory:
        units = max(units, 1 + asked.base.mem // unit.mem)
    return units, Millis(end)


def _denied(state: State, unit: Resources, now: Millis) -> tuple[int | None, Millis | None]:
    """Units that a denied downscale needs, and the end of its cooldown; None once it is over."""
    denied = state.monitor.denied_downscale
    if denied is None:
        return None, None
    end = denied.at + state.config.monitor_denied_downscale_cooldown
    if end <= now:
        return None, None
    units = 1 + max(denied.requested.cpu // unit.cpu, denied.requested.mem // unit.mem)
    return units, Millis(end)


def _denial_floor(state: State, unit: Resources) -> Resources:
    """The least that a denial in cooldown leaves: just above what was refused, at most what was approved."""
    denied = state.monitor.denied_downscale
    if denied is None:
        return state.vm.min
    above = Resources(
        MilliCpu(unit.cpu * (1 + denied.requested.cpu // unit.cpu)),
        Slots(unit.mem * (1 + denied.requested.mem // unit.mem)),
    )
    return denied.current.min(above)
