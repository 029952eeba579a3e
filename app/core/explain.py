"""A decision in sentences: inputs, arithmetic, what is desired, what holds it back and until when.

For an operator at night. Pure: the same state and `now` give the same text. Not for the hot path.
"""

from __future__ import annotations

from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.goal import Desired, desired_resources
from app.core.model import Metrics, Millis, Mode
from app.core.phrases import cpu_text, mem_text, number_text, size_text, span_text, units_text, until_text
from app.core.resources import Resources
from app.core.state import State


def explain(state: State, now: Millis) -> list[str]:
    """What the core decides at `now`, and why; in reading order, each a full sentence without a full stop."""
    goal = desired_resources(state, now)
    actions = next_actions(state, now)
    return [
        *_inputs(state),
        *_arithmetic(state, goal),
        *_raised(state, goal, now),
        *_outcome(state, goal),
        *_next_steps(state, actions),
        *_in_flight(state),
        *_obstacles(state, actions, now),
    ]


def _inputs(state: State) -> list[str]:
    vm = state.vm
    bounds = f"between {_size(state, vm.min)} and {_size(state, vm.max)}"
    said = [f"it uses {_size(state, vm.use)}, and may have {bounds}"]
    permit, approved = state.plugin.permit, state.monitor.approved
    granted = "no permit yet" if permit is None else f"permit for {_size(state, permit)}"
    leave = "monitor not active" if approved is None else f"monitor has approved {_size(state, approved)}"
    return [*said, f"{granted}, {leave}"]


def _arithmetic(state: State, goal: Desired) -> list[str]:
    if goal.unit is None:
        return ["no scheduler has told the compute unit yet: the size stays as it is"]
    metrics = state.metrics
    if metrics is None:
        return ["no sample yet: load and memory are not known"]
    return [
        _cpu_line(state, metrics, goal, goal.unit),
        _mem_line(state, metrics, goal, goal.unit),
        _winner(goal),
    ]


def _cpu_line(state: State, metrics: Metrics, goal: Desired, unit: Resources) -> str:
    target = state.scaling.load_average_fraction_target
    cpus = metrics.load1 / target
    return (
        f"load1 {number_text(metrics.load1)} / target {number_text(target)} = {number_text(cpus)} CPUs "
        f"-> {units_text(goal.cpu_units or 0)} of {cpu_text(unit.cpu)} CPU"
    )


def _mem_line(state: State, metrics: Metrics, goal: Desired, unit: Resources) -> str:
    target = state.scaling.memory_usage_fraction_target
    needed = metrics.mem_bytes / target
    return (
        f"memory in use {number_text(metrics.mem_bytes / 2**30)} GiB / target {number_text(target)} "
        f"= {number_text(needed / 2**30)} GiB -> {units_text(goal.mem_units or 0)} of "
        f"{mem_text(unit.mem * state.vm.slot_bytes)}, rounded down"
    )


def _winner(goal: Desired) -> str:
    if goal.cpu_units == goal.mem_units:
        return f"CPU and memory both ask for {units_text(goal.initial)}"
    leader = "CPU" if goal.cpu_units == goal.initial else "memory"
    return f"the larger counts: {leader}, with {units_text(goal.initial)}"


def _raised(state: State, goal: Desired, now: Millis) -> list[str]:
    said = []
    asked, denied = state.monitor.requested_upscale, state.monitor.denied_downscale
    if goal.requested_units is not None and asked is not None:
        kinds = [name for name, is_asked in (("CPU", asked.cpu), ("memory", asked.memory)) if is_asked]
        end = asked.at + state.config.monitor_requested_upscale_valid_period
        changed = "raises the goal" if goal.requested_until is not None else "changes nothing"
        what = " and ".join(kinds) or "(nothing)"
        said.append(
            f"the monitor asked for more {what} than {_size(state, asked.base)}: at least "
            f"{units_text(goal.requested_units)} {until_text(end, now)}; that {changed}"
        )
    if goal.denied_units is not None and denied is not None:
        end = denied.at + state.config.monitor_denied_downscale_cooldown
        changed = "holds the size up" if goal.denied_until is not None else "changes nothing"
        said.append(
            f"the monitor denied a downscale to {_size(state, denied.requested)}: at least "
            f"{units_text(goal.denied_units)} {until_text(end, now)}; that {changed}"
        )
    return said


def _outcome(state: State, goal: Desired) -> list[str]:
    size = _size(state, goal.resources)
    if goal.unit is None or goal.unclamped is None or goal.bounded is None:
        return [f"desired: {size}"]
    if state.metrics is None and goal.goal == 0:
        origin = "as in use"
    else:
        origin = f"{units_text(goal.goal)} = {_size(state, goal.unclamped)}"
    if goal.bounded != goal.unclamped:
        origin += f", within its bounds {_size(state, goal.bounded)}"
    if goal.resources != goal.bounded:
        origin += ", raised by the denial"
    verdict = (
        "that is what it has" if goal.resources == state.vm.use else f"it has {_size(state, state.vm.use)}"
    )
    return [f"desired: {size} ({origin}); {verdict}"]


def _next_steps(state: State, actions: ActionSet) -> list[str]:
    said = []
    if actions.plugin is not None:
        said.append(f"next: ask the scheduler for {_size(state, actions.plugin.target)}")
    if actions.platform is not None:
        said.append(f"next: resize to {_size(state, actions.platform.target)}")
    if actions.monitor_upscale is not None:
        said.append(f"next: tell the monitor of {_size(state, actions.monitor_upscale.target)}")
    if actions.monitor_downscale is not None:
        said.append(
            f"next: ask the monitor for a downscale to {_size(state, actions.monitor_downscale.target)}"
        )
    if not said and state.mode is not Mode.OBSERVE:
        wait = "" if actions.wait is None else f"; looked at again in {span_text(actions.wait)} at the latest"
        said.append(f"nothing to ask of anyone now{wait}")
    return said


def _in_flight(state: State) -> list[str]:
    said = []
    last, platform, monitor = state.plugin.last_request, state.platform.ongoing, state.monitor.ongoing
    if state.plugin.ongoing and last is not None:
        said.append(f"in flight: the scheduler was asked for {_size(state, last.resources)}")
    if platform is not None:
        said.append(f"in flight: a resize to {_size(state, platform)}")
    if monitor is not None:
        said.append(
            f"in flight: the monitor was asked about the {monitor.kind} to {_size(state, monitor.resources)}"
        )
    return said


def _obstacles(state: State, actions: ActionSet, now: Millis) -> list[str]:
    """The reasons, except the first one that `_outcome` has told better, and the ends of the pauses."""
    told = ("wants ", "the monitor asked for more ", "the monitor denied a downscale to ")
    said = [f"why: {reason}" for reason in actions.reasons if not reason.startswith(told)]
    return [*said, *(f"{what} {until_text(end, now)}" for what, end in _pauses(state) if end > now)]


def _pauses(state: State) -> list[tuple[str, int]]:
    plugin, monitor, config = state.plugin, state.monitor, state.config
    pauses: list[tuple[str, int | None, int]] = [
        ("the scheduler is left alone after a failure", plugin.failed_at, config.plugin_retry_wait),
        ("the platform is left alone after a failure", state.platform.failed_at, config.platform_retry_wait),
        ("no upscale is told after a failure", monitor.upscale_failed_at, config.monitor_retry_wait),
        ("no downscale is asked after a failure", monitor.downscale_failed_at, config.monitor_retry_wait),
    ]
    last, permit, denied = plugin.last_request, plugin.permit, monitor.denied_downscale
    if (
        last is not None
        and permit is not None
        and not plugin.ongoing
        and last.resources.has_field_above(permit)
    ):
        wait = config.plugin_denied_retry_wait
        pauses.append(("no more is asked for after a request that was not granted", last.at, wait))
    if denied is not None:
        wait = config.monitor_downscale_follow_up_wait
        pauses.append(("no downscale is asked after the denial", denied.at, wait))
    return [(what, at + wait) for what, at, wait in pauses if at is not None]


def _size(state: State, size: Resources) -> str:
    return size_text(size, state.vm.slot_bytes)
