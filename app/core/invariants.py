"""What holds for every decision (`spec/core.md`, "Properties that always hold"), checked from the outside.

Written without the arithmetic of `decide`, so that it can judge it.
"""

from __future__ import annotations

from app.core.actions import ActionSet
from app.core.model import Millis, Mode
from app.core.resources import Resources
from app.core.state import State


def broken_invariants(state: State, now: Millis, actions: ActionSet) -> list[str]:
    """A line for each property that `actions` breaks; empty if all hold."""
    return [
        *_in_flight(state, actions),
        *_quiet(state, actions),
        *_platform_bounds(state, now, actions),
        *_monitor_bounds(state, actions),
        *_order(state, actions),
    ]


def _in_flight(state: State, actions: ActionSet) -> list[str]:
    asks_monitor = actions.monitor_upscale is not None or actions.monitor_downscale is not None
    said = []
    if state.plugin.ongoing and actions.plugin is not None:
        said.append("a second plugin request")
    if state.platform.ongoing is not None and actions.platform is not None:
        said.append("a second platform request")
    if state.monitor.ongoing is not None and asks_monitor:
        said.append("a second monitor request")
    if actions.monitor_upscale is not None and actions.monitor_downscale is not None:
        said.append("a monitor downscale beside a planned upscale")
    return said


def _quiet(state: State, actions: ActionSet) -> list[str]:
    said = []
    if state.mode is Mode.OBSERVE and (actions.has_requests or actions.wait is not None):
        said.append("an observed VM has a request or a wait")
    if not state.plugin.alive and actions.plugin is not None:
        said.append("a plugin request without a scheduler")
    if not state.monitor.is_active and (actions.monitor_upscale or actions.monitor_downscale):
        said.append("a monitor request without an active monitor")
    if actions.wait is not None and actions.wait <= 0:
        said.append(f"a wait of {actions.wait} ms")
    return said


def _platform_bounds(state: State, now: Millis, actions: ActionSet) -> list[str]:
    if actions.platform is None:
        return []
    use, target = state.vm.use, actions.platform.target
    permit = use if state.plugin.permit is None else state.plugin.permit
    approved = use if state.monitor.approved is None else state.monitor.approved
    said = []
    if actions.platform.current != use or target == use:
        said.append(f"a resize from {actions.platform.current} to {target}, in use {use}")
    for name, used, wanted, granted, left, least, most in _fields(state, use, target, permit, approved):
        if wanted > max(granted, used):
            said.append(f"{name} asked up beyond the permit")
        if wanted < min(left, used):
            said.append(f"{name} asked down beyond what the monitor approved")
        if wanted > used and wanted > max(most, least) and not _is_denied(state, now):
            said.append(f"{name} asked up beyond its maximum")
        if wanted < used and wanted < least:
            said.append(f"{name} asked down beyond its minimum")
    return said


def _fields(
    state: State, use: Resources, target: Resources, permit: Resources, approved: Resources
) -> list[tuple[str, int, int, int, int, int, int]]:
    low, high = state.vm.min, state.vm.max
    return [
        ("CPU", use.cpu, target.cpu, permit.cpu, approved.cpu, low.cpu, high.cpu),
        ("memory", use.mem, target.mem, permit.mem, approved.mem, low.mem, high.mem),
    ]


def _is_denied(state: State, now: Millis) -> bool:
    denied = state.monitor.denied_downscale
    return denied is not None and denied.at + state.config.monitor_denied_downscale_cooldown > now


def _monitor_bounds(state: State, actions: ActionSet) -> list[str]:
    upscale, downscale = actions.monitor_upscale, actions.monitor_downscale
    said = []
    if upscale is not None:
        if upscale.target.has_field_above(state.vm.use.max(upscale.current)):
            said.append("the monitor is told of more than is in use")
        if upscale.target.has_field_below(upscale.current) or upscale.target == upscale.current:
            said.append("a monitor upscale that makes nothing larger, or something smaller")
    if downscale is not None:
        if downscale.target.has_field_above(downscale.current) or downscale.target == downscale.current:
            said.append("a monitor downscale that makes nothing smaller, or something larger")
        least = state.vm.min.min(state.vm.use).min(downscale.current)
        if downscale.target.has_field_below(least):
            said.append("a monitor downscale beyond the minimum and what is in use")
    return said


def _order(state: State, actions: ActionSet) -> list[str]:
    """The platform isn't asked for more than the scheduler is being asked for."""
    if actions.platform is None:
        return []
    asked = actions.plugin.target if actions.plugin is not None else None
    if asked is None and state.plugin.ongoing and state.plugin.last_request is not None:
        asked = state.plugin.last_request.resources
    if asked is not None and asked.has_field_below(actions.platform.target):
        return ["the platform is asked for more than the scheduler"]
    return []
