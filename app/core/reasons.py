"""What the core says about its decision: what was wanted and what stood in its way.

Stable texts: no time of day and no remaining time, so one text is one situation. `explain` adds until when.
"""

from __future__ import annotations

from app.core.goal import Desired
from app.core.phrases import size_text, span_text, units_text
from app.core.resources import Resources
from app.core.state import MonitorRequest, State

OBSERVED = "observed only: nothing is asked of anyone"
NO_SCHEDULER = "there is no scheduler to ask for a permit"
NO_MONITOR = "no downscale without an active monitor"


def resize_wanted(state: State, goal: Desired) -> str:
    """The size that is desired instead of the one in use, and who needs it."""
    text = f"wants {_size(state, goal.resources)} instead of {_size(state, state.vm.use)}"
    if goal.unit is None:
        return text
    if goal.cpu_units is not None and goal.mem_units is not None:
        unit = _size(state, goal.unit)
        text += (
            f": the load needs {units_text(goal.cpu_units)} of {unit}, memory {units_text(goal.mem_units)}"
        )
    if goal.bounded != goal.unclamped:
        text += f"; its bounds are {_size(state, state.vm.min)} and {_size(state, state.vm.max)}"
    return text


def goal_raised(state: State, goal: Desired) -> list[str]:
    """Who holds the desired size up, besides load and memory."""
    said = []
    asked, denied = state.monitor.requested_upscale, state.monitor.denied_downscale
    if goal.requested_until is not None and asked is not None:
        what = "CPU and memory" if asked.cpu and asked.memory else "CPU" if asked.cpu else "memory"
        said.append(f"the monitor asked for more {what} than {_size(state, asked.base)}")
    if goal.denied_until is not None and denied is not None:
        cooldown = span_text(state.config.monitor_denied_downscale_cooldown)
        said.append(
            f"the monitor denied a downscale to {_size(state, denied.requested)}: "
            f"kept above that until {cooldown} after the denial"
        )
    return said


def scheduler_busy(state: State, wanted: Resources, asked: Resources) -> str:
    """Another wish has come up while a request is in flight."""
    return (
        f"waits for the scheduler's answer to {_size(state, asked)} before it asks for {_size(state, wanted)}"
    )


def scheduler_failed(state: State) -> str:
    """The pause after a failure."""
    wait = span_text(state.config.plugin_retry_wait)
    return f"the request to the scheduler failed: the next one {wait} after that"


def permit_refused(state: State, wanted: Resources, asked: Resources, permit: Resources) -> str:
    """The pause after a request for more than there is a permit for, refused or failed."""
    wait = span_text(state.config.plugin_denied_retry_wait)
    return (
        f"the scheduler was asked for {_size(state, asked)}, but the permit is {_size(state, permit)}: "
        f"{_size(state, wanted)} is asked for {wait} after that request"
    )


def bounds_hold(state: State, target: Resources, desired: Resources) -> list[str]:
    """Permit or approval that the platform may not be asked beyond."""
    said = []
    if desired.has_field_above(target):
        permit = state.plugin.permit
        said.append(
            "no permit for more than what is in use"
            if permit is None
            else f"the permit is {_size(state, permit)}: not asked up beyond it"
        )
    approved = state.monitor.approved
    if approved is not None and desired.has_field_below(target):
        said.append(f"the monitor has approved {_size(state, approved)}: not asked down below it")
    return said


def conflict(state: State, target: Resources, asked: Resources) -> str:
    """The scheduler is being told of less than what the platform would be asked for."""
    return f"no resize to {_size(state, target)} while the scheduler is asked for {_size(state, asked)}"


def platform_busy(state: State, target: Resources, ongoing: Resources) -> str:
    """A resize is in flight, and it is not the one wanted now."""
    return f"waits for the resize to {_size(state, ongoing)} before the one to {_size(state, target)}"


def platform_failed(state: State, target: Resources) -> str:
    """The pause after a failed resize."""
    wait = span_text(state.config.platform_retry_wait)
    return f"the last resize failed: {_size(state, target)} is tried {wait} after that"


def monitor_busy(state: State, target: Resources, ongoing: MonitorRequest) -> str:
    """The monitor is being asked something else."""
    return (
        f"waits for the monitor's answer to the {ongoing.kind} to {_size(state, ongoing.resources)} "
        f"before {_size(state, target)}"
    )


def monitor_failed(state: State, target: Resources, kind: str) -> str:
    """The pause after a request that the monitor did not answer."""
    wait = span_text(state.config.monitor_retry_wait)
    return f"the monitor {kind} failed: {_size(state, target)} is asked {wait} after that"


def monitor_denied(state: State, target: Resources) -> str:
    """The pause after any denial."""
    wait = span_text(state.config.monitor_downscale_follow_up_wait)
    return f"the monitor denied a downscale: {_size(state, target)} is asked {wait} after that"


def upscale_first(state: State, target: Resources) -> str:
    """An upscale in the same set goes first."""
    return f"the monitor is told of an upscale before it is asked for the downscale to {_size(state, target)}"


def _size(state: State, size: Resources) -> str:
    return size_text(size, state.vm.slot_bytes)
