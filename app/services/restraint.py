"""What may be done of what the core wants: the operator, a migration and caution restrain a plan.

The core's own answer stays as it is for `explain` and recordings; only what is carried out differs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.actions import ActionSet, PluginRequest
from app.core.decide import next_actions
from app.core.model import Millis
from app.core.state import State
from app.services.leave import bar_of

if TYPE_CHECKING:
    from app.services.runner import Runner


def restrain(runner: Runner, actions: ActionSet, now: Millis) -> ActionSet:
    """The plan to carry out; its reasons say what was held back."""
    if runner.is_observed:
        return actions
    if not runner.has_intents:
        return _nothing(actions, "its operators' intents are being read")
    if not runner.is_ready:
        return _nothing(actions, "its real size is being read")
    if runner.vm.migrating:
        return _nothing(actions, "the VM migrates: nothing is asked of anyone")
    bar = bar_of(runner)
    if bar is not None:
        return _nothing(actions, bar)
    actions = _promise_no_more(runner.state, _cover_what_may_come(runner.state, actions, now))
    obstacle = _obstacle(runner, now)
    if obstacle is not None:
        frozen = _promise_no_more(runner.state, _frozen_plan(runner.state, now))
        return replace(frozen, desired=actions.desired, reasons=(*actions.reasons, obstacle))
    if runner.state.metrics is None and actions.has_requests:
        return _without_downscale(actions)
    return actions


def _nothing(actions: ActionSet, reason: str) -> ActionSet:
    return ActionSet(desired=actions.desired, reasons=(*actions.reasons, reason))


def _obstacle(runner: Runner, now: Millis) -> str | None:
    """Why no change of size may be begun now, whatever the core wants; None: nothing forbids it."""
    pause = runner.pause
    if pause is not None:
        return f"paused by {pause.author}: {pause.reason}" if pause.reason else f"paused by {pause.author}"
    if runner.is_migrating_by_scheduler:
        return "the scheduler says that the VM is about to migrate"
    if runner.hold_until_ms is not None and now < runner.hold_until_ms:
        return f"the last resize was not applied; tried again in {(runner.hold_until_ms - now) / 1000:.1f} s"
    return None


def _frozen_plan(state: State, now: Millis) -> ActionSet:
    """What keeps the size in use alive: ticks, the permit given back, the monitor told; no resize."""
    size = state.vm.use
    if state.platform.ongoing is not None:
        size = size.max(state.platform.ongoing)
    actions = next_actions(replace(state, vm=replace(state.vm, min=size, max=size)), now)
    plugin = actions.plugin
    if plugin is not None and plugin.target.has_field_above(size):
        plugin = PluginRequest(plugin.last_permit, plugin.target.min(size), plugin.metrics)
    return replace(actions, plugin=plugin, platform=None, monitor_downscale=None)


def _cover_what_may_come(state: State, actions: ActionSet, now: Millis) -> ActionSet:
    """No permit is given back below a size that the platform was asked for and may still apply.

    The core asks for what is wanted now, whatever is under way; the scheduler takes less as told, and another
    VM gets the rest at once.
    """
    asked, coming, last = actions.plugin, state.platform.ongoing, state.plugin.last_request
    if asked is None or coming is None or not asked.target.has_field_below(coming):
        return actions
    target = asked.target.max(coming)
    is_tick = last is None or now - last.at >= state.config.plugin_request_tick
    if target != state.plugin.permit or is_tick:
        return replace(actions, plugin=PluginRequest(asked.last_permit, target, asked.metrics))
    reason = "a smaller permit is asked for once the resize under way is seen"
    return replace(actions, plugin=None, reasons=(*actions.reasons, reason))


def _promise_no_more(state: State, actions: ActionSet) -> ActionSet:
    """The monitor is told of no more than will be there when a smaller size under way is applied.

    The core tells it of the size in use as soon as that is wanted again; a guest that believes it would then
    be made smaller without its leave.
    """
    told, coming = actions.monitor_upscale, state.platform.ongoing
    if told is None or coming is None or not told.target.has_field_above(coming):
        return actions
    target = told.target.min(coming.max(told.current))
    reason = "the monitor is told of more once the resize under way is seen"
    upscale = None if target == told.current else replace(told, target=target)
    return replace(actions, monitor_upscale=upscale, reasons=(*actions.reasons, reason))


def _without_downscale(actions: ActionSet) -> ActionSet:
    """Before the first fresh sample nothing is made smaller: a new owner knows too little."""
    platform = actions.platform
    shrinks = platform is not None and platform.target.has_field_below(platform.current)
    if actions.monitor_downscale is None and not shrinks:
        return actions
    return replace(
        actions,
        platform=None if shrinks else platform,
        monitor_downscale=None,
        reasons=(*actions.reasons, "no downscale before a fresh sample"),
    )
