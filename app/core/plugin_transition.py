"""The scheduler's events (`spec/core.md`, "Events", rows that begin with "plugin")."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from app.core.events import PluginFailed, PluginGone, PluginNewScheduler, PluginStarting, PluginSuccessful
from app.core.phrases import amount_text
from app.core.resources import Resources
from app.core.state import PluginState, SentRequest, unit_problem

PluginEvent = PluginNewScheduler | PluginGone | PluginStarting | PluginFailed | PluginSuccessful

_Part = tuple[PluginState, str | None]


def apply_to_plugin(
    plugin: PluginState, use: Resources, event: PluginEvent
) -> tuple[PluginState, str | None]:
    """The scheduler's part after `event`, and why it was refused, if it was.

    A refused event gives back the same object, except a bad answer: that is a failure, so its part changes.
    """
    match event:
        case PluginNewScheduler():
            return PluginState(alive=True, compute_unit=plugin.compute_unit, permit=plugin.permit), None
        case PluginGone():
            return PluginState(alive=False, compute_unit=plugin.compute_unit, permit=plugin.permit), None
        case PluginStarting(now, resources):
            if not plugin.alive:
                return plugin, "plugin starting: there is no scheduler"
            if plugin.ongoing:
                return plugin, "plugin starting: a plugin request is already ongoing"
            return replace(plugin, ongoing=True, last_request=SentRequest(now, resources)), None
        case PluginFailed(now):
            if not plugin.ongoing:
                return plugin, "plugin failed: no plugin request is ongoing"
            return replace(plugin, ongoing=False, failed_at=now), None
        case PluginSuccessful(now, permit, unit):
            if not plugin.ongoing or plugin.last_request is None:
                return plugin, "plugin successful: no plugin request is ongoing"
            problem = _answer_problem(permit, unit, plugin.last_request.resources, use)
            if problem is not None:
                return replace(plugin, ongoing=False, failed_at=now), f"plugin successful: {problem}"
            return replace(plugin, ongoing=False, permit=permit, compute_unit=unit), None
        case _:
            assert_never(event)


def _answer_problem(permit: Resources, unit: Resources, asked: Resources, use: Resources) -> str | None:
    """What is wrong with a scheduler's answer; the order of the checks is the rule's."""
    if permit.has_zero_field():
        return f"the permit of {amount_text(permit)} has a zero field"
    problem = unit_problem(unit)
    if problem is not None:
        return f"the compute unit of {amount_text(unit)} {problem}"
    if permit.has_field_above(asked):
        return f"the permit of {amount_text(permit)} is above the {amount_text(asked)} asked for"
    if permit.has_field_below(use):
        return f"the permit of {amount_text(permit)} is below the {amount_text(use)} in use"
    return None
