"""What to do next for a VM (`spec/core.md`, "next_actions").

Changes nothing and never raises: whatever the bounds are, a field moves towards the desired size or stays.
Up it goes plugin, platform, monitor; down it goes monitor, platform, plugin. Reasons are built only for what
was wanted, so a VM at rest pays nothing for them.
"""

from __future__ import annotations

from app.core import reasons as because
from app.core.actions import ActionSet, PluginRequest, Resize
from app.core.clamping import clamp
from app.core.goal import desired_resources
from app.core.model import Millis, Mode
from app.core.resources import Resources
from app.core.state import State

_Wait = Millis | None


def next_actions(state: State, now: Millis) -> ActionSet:
    """The requests that may be made now, the time after which to ask again, and why.

    An observed VM gets its desired size and no request and no wait.
    """
    goal = desired_resources(state, now)
    desired = goal.resources
    said: list[str] = []
    if desired != state.vm.use:
        said.append(because.resize_wanted(state, goal))
    if goal.denied_until is not None or goal.requested_until is not None:
        said.extend(because.goal_raised(state, goal))
    if state.mode is Mode.OBSERVE:
        said.append(because.OBSERVED)
        return ActionSet(desired=desired, reasons=tuple(said))
    plugin, plugin_wait = _plan_plugin(state, now, desired, said)
    platform, platform_wait = _plan_platform(state, now, desired, plugin, said)
    upscale = downscale = None
    upscale_wait = downscale_wait = None
    approved = state.monitor.approved
    if approved is not None:
        upscale, upscale_wait = _plan_upscale(state, now, approved, desired, said)
        downscale, downscale_wait = _plan_downscale(state, now, Resize(approved, desired), upscale, said)
    elif desired.has_field_below(state.vm.use):
        said.append(because.NO_MONITOR)
    is_monitor_busy = downscale is not None or state.monitor.ongoing is not None
    goal_wait = goal.wait(now, is_monitor_busy=is_monitor_busy)
    wait = _least(plugin_wait, platform_wait, upscale_wait, downscale_wait, goal_wait)
    return ActionSet(plugin, platform, upscale, downscale, wait, desired, tuple(said))


def _plan_plugin(
    state: State, now: Millis, desired: Resources, said: list[str]
) -> tuple[PluginRequest | None, _Wait]:
    plugin, config, use = state.plugin, state.config, state.vm.use
    wanted = clamp(use, desired, lower=use, upper=None)
    last, permit = plugin.last_request, plugin.permit
    if not plugin.alive:
        if wanted != use:
            said.append(because.NO_SCHEDULER)
        return None, None
    wants = last is not None and permit is not None and wanted != permit
    if plugin.ongoing:
        if wants and last is not None and wanted != last.resources:
            said.append(because.scheduler_busy(state, wanted, last.resources))
        return None, None
    if plugin.failed_at is not None:
        rest = plugin.failed_at + config.plugin_retry_wait - now
        if rest > 0:
            said.append(because.scheduler_failed(state))
            return None, Millis(rest)
    tick = 0 if last is None else config.plugin_request_tick - (now - last.at)
    backoff = 0
    if last is not None and permit is not None and last.resources.has_field_above(permit):
        backoff = last.at + config.plugin_denied_retry_wait - now
    should = wants and backoff <= 0
    if tick <= 0 or should:
        ongoing = state.platform.ongoing
        target = wanted if should else use if ongoing is None else use.max(ongoing)
        return PluginRequest(permit, target, state.metrics), None
    if wants and permit is not None and last is not None:
        said.append(because.permit_refused(state, wanted, last.resources, permit))
    return None, Millis(min(tick, backoff) if backoff > 0 else tick)


def _plan_platform(
    state: State, now: Millis, desired: Resources, planned: PluginRequest | None, said: list[str]
) -> tuple[Resize | None, _Wait]:
    platform, plugin, use = state.platform, state.plugin, state.vm.use
    permit, approved = plugin.permit, state.monitor.approved
    lower, upper = approved or use, permit or use
    target = clamp(use, desired, lower=lower, upper=upper)
    if target != desired:
        said.extend(because.bounds_hold(state, target, desired))
    if target == use:
        return None, None
    asked: Resources | None = None
    if planned is not None:
        asked = planned.target
    elif plugin.ongoing and plugin.last_request is not None:
        asked = plugin.last_request.resources
    if asked is not None and asked.has_field_below(target):
        said.append(because.conflict(state, target, asked))
        return None, None
    if platform.ongoing is not None:
        if platform.ongoing != target:
            said.append(because.platform_busy(state, target, platform.ongoing))
        return None, None
    if platform.failed_at is not None:
        rest = platform.failed_at + state.config.platform_retry_wait - now
        if rest > 0:
            said.append(because.platform_failed(state, target))
            return None, Millis(rest)
    return Resize(use, target), None


def _plan_upscale(
    state: State, now: Millis, approved: Resources, desired: Resources, said: list[str]
) -> tuple[Resize | None, _Wait]:
    monitor = state.monitor
    target = clamp(approved, state.vm.use, lower=approved, upper=desired.max(approved))
    if target == approved:
        return None, None
    if monitor.ongoing is not None:
        if monitor.ongoing.resources != target:
            said.append(because.monitor_busy(state, target, monitor.ongoing))
        return None, None
    if monitor.upscale_failed_at is not None:
        rest = monitor.upscale_failed_at + state.config.monitor_retry_wait - now
        if rest > 0:
            said.append(because.monitor_failed(state, target, "upscale"))
            return None, Millis(rest)
    return Resize(approved, target), None


def _plan_downscale(
    state: State, now: Millis, wish: Resize, planned: Resize | None, said: list[str]
) -> tuple[Resize | None, _Wait]:
    monitor, config, approved = state.monitor, state.config, wish.current
    target = clamp(approved, wish.target, lower=None, upper=approved)
    if target == approved:
        return None, None
    if planned is not None:
        said.append(because.upscale_first(state, target))
        return None, None
    if monitor.ongoing is not None:
        if monitor.ongoing.resources != target:
            said.append(because.monitor_busy(state, target, monitor.ongoing))
        return None, None
    if monitor.downscale_failed_at is not None:
        rest = monitor.downscale_failed_at + config.monitor_retry_wait - now
        if rest > 0:
            said.append(because.monitor_failed(state, target, "downscale"))
            return None, Millis(rest)
    if monitor.denied_downscale is not None:
        rest = monitor.denied_downscale.at + config.monitor_downscale_follow_up_wait - now
        if rest > 0:
            said.append(because.monitor_denied(state, target))
            return None, Millis(rest)
    return Resize(approved, target), None


def _least(*waits: _Wait) -> _Wait:
    return min((wait for wait in waits if wait is not None), default=None)
