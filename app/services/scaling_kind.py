"""What kind of task a plan calls for, and the size that it is about."""

from __future__ import annotations

from app.core.actions import ActionSet
from app.core.resources import Resources
from app.core.state import State

UPSCALE = "upscale"
DOWNSCALE = "downscale"


def scaling_kind(state: State, plan: ActionSet) -> str | None:
    """`upscale` if any field grows, else `downscale`; None for what changes no size.

    The scheduler's ticks, word to scheduler and monitor of what is already in use, and the same question
    again after it was refused are no scaling operation: the owner does them itself, without a task.
    """
    use = state.vm.use
    if plan.platform is not None:
        return UPSCALE if plan.platform.target.has_field_above(use) else DOWNSCALE
    if plan.monitor_downscale is not None:
        return DOWNSCALE
    if plan.plugin is None or not plan.plugin.target.has_field_above(use):
        return None
    last = state.plugin.last_request
    return UPSCALE if last is None or plan.plugin.target != last.resources else None


def plan_target(state: State, plan: ActionSet) -> Resources:
    """The size that a plan is about."""
    for step in (plan.platform, plan.monitor_downscale, plan.plugin, plan.monitor_upscale):
        if step is not None:
            return step.target
    return state.vm.use
