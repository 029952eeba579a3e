"""Events as the steps of a script, in the vectors' schema (`vectors/README.md`).

The inverse of what `event_script` reads. Doubles are written in full, so that what is read back is the same.
"""

from __future__ import annotations

from typing import assert_never

from app.core import events
from app.core.events import Event
from app.core.fields import Fields
from app.core.json_forms import Json, metrics_to_json, resources_to_json, vm_to_json
from app.core.model import Millis
from app.errors import InvalidInput
from app.services.event_script import read_event


def event_json(event: Event, now: Millis) -> Json:
    """`{"op", "now_ms"}` and what else the event carries; its own time, if it has one, is `now`."""
    op, rest = _other_event(event)
    return {"op": op, "now_ms": now, **rest}


def is_faithful(event: Event, written: Json) -> bool:
    """Whether `written` reads back as the very event: the schema bounds what live values need not."""
    try:
        return read_event(Fields(written)) == event
    except InvalidInput:
        return False


def _other_event(event: Event) -> tuple[str, Json]:
    match event:
        case events.UpdatedVm(vm):
            return "updated_vm", {"vm": vm_to_json(vm)}
        case events.MetricsArrived(metrics):
            return "metrics", {"metrics": None if metrics is None else metrics_to_json(metrics)}
        case events.ModeChanged(mode, unit):
            told = None if unit is None else resources_to_json(unit)
            return "mode", {"mode": mode.value, "compute_unit": told}
        case events.PlatformStarting(resources):
            return "platform.starting", {"resources": resources_to_json(resources)}
        case events.PlatformSuccessful():
            return "platform.success", {}
        case events.PlatformFailed():
            return "platform.failed", {}
        case events.PlatformObserved(_, resources):
            return "platform.observed", {"resources": resources_to_json(resources)}
        case (
            events.PluginNewScheduler()
            | events.PluginGone()
            | events.PluginStarting()
            | events.PluginFailed()
            | events.PluginSuccessful()
        ):
            return _plugin_event(event)
        case _:
            return _monitor_event(event)


def _plugin_event(
    event: events.PluginNewScheduler
    | events.PluginGone
    | events.PluginStarting
    | events.PluginFailed
    | events.PluginSuccessful,
) -> tuple[str, Json]:
    match event:
        case events.PluginNewScheduler():
            return "plugin.new_scheduler", {}
        case events.PluginGone():
            return "plugin.gone", {}
        case events.PluginStarting(_, resources):
            return "plugin.starting", {"resources": resources_to_json(resources)}
        case events.PluginFailed():
            return "plugin.failed", {}
        case events.PluginSuccessful(_, permit, unit):
            answer = {"permit": resources_to_json(permit), "compute_unit": resources_to_json(unit)}
            return "plugin.success", {**answer}
        case _:
            assert_never(event)


def _monitor_event(
    event: events.MonitorReset
    | events.MonitorActive
    | events.MonitorUpscaleRequested
    | events.MonitorStartingUpscale
    | events.MonitorStartingDownscale
    | events.MonitorUpscaleSuccessful
    | events.MonitorUpscaleFailed
    | events.MonitorDownscaleAllowed
    | events.MonitorDownscaleDenied
    | events.MonitorDownscaleFailed,
) -> tuple[str, Json]:
    match event:
        case events.MonitorReset():
            return "monitor.reset", {}
        case events.MonitorActive(is_active):
            return "monitor.active", {"active": is_active}
        case events.MonitorUpscaleRequested(_, cpu, memory):
            return "monitor.upscale_requested", {"cpu": cpu, "memory": memory}
        case events.MonitorStartingUpscale(_, resources):
            return "monitor.starting_upscale", {"resources": resources_to_json(resources)}
        case events.MonitorStartingDownscale(_, resources):
            return "monitor.starting_downscale", {"resources": resources_to_json(resources)}
        case events.MonitorUpscaleSuccessful():
            return "monitor.upscale_ok", {}
        case events.MonitorUpscaleFailed():
            return "monitor.upscale_failed", {}
        case events.MonitorDownscaleAllowed():
            return "monitor.downscale_allowed", {}
        case events.MonitorDownscaleDenied():
            return "monitor.downscale_denied", {}
        case events.MonitorDownscaleFailed():
            return "monitor.downscale_failed", {}
        case _:
            assert_never(event)
