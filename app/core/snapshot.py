"""A state as versioned JSON: what the next owner of a VM goes on from.

Complete: `from_snapshot(to_snapshot(s), now)` is `s` for any state whose times are not after `now`. Version N
must read N-1, so that workers can be upgraded one by one; 1 is the first, so there is none before it. Unknown
fields are ignored. Times are Unix milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from app.core.fields import Fields
from app.core.json_forms import (
    Json,
    config_from_json,
    config_to_json,
    metrics_from_json,
    metrics_to_json,
    resources_from_json,
    resources_to_json,
    vm_from_json,
    vm_to_json,
)
from app.core.model import Millis, Mode
from app.core.resources import Resources
from app.core.state import (
    DeniedDownscale,
    MonitorRequest,
    MonitorState,
    PlatformState,
    PluginState,
    RequestedUpscale,
    RequestKind,
    SentRequest,
    State,
    metrics_problem,
    unit_problem,
)
from app.errors import InvalidInput, NewerVersion

_Kind = TypeVar("_Kind", Mode, RequestKind)

SNAPSHOT_VERSION = 1


def to_snapshot(state: State) -> Json:
    """The whole state as an object that `json.dumps` takes."""
    metrics = state.metrics
    return {
        "version": SNAPSHOT_VERSION,
        "vm": vm_to_json(state.vm),
        "config": config_to_json(state.config),
        "plugin": _plugin_to_json(state.plugin),
        "monitor": _monitor_to_json(state.monitor),
        "platform": {
            "ongoing": _optional(state.platform.ongoing),
            "failed_at_ms": state.platform.failed_at,
        },
        "metrics": None if metrics is None else metrics_to_json(metrics),
        "mode": state.mode.value,
        "observe_unit": _optional(state.observe_unit),
    }


def from_snapshot(data: Mapping[str, object], now: Millis) -> State:
    """The state that was kept; times after `now` become `now` (another host's clock may have been ahead).

    Raises:
        NewerVersion: a later version of this program wrote it: leave it alone.
        InvalidInput: of no known version, or not a state; names the field. Begin anew with `initial_state`.
    """
    fields = Fields(dict(data))
    version = fields.integer("version")
    if version > SNAPSHOT_VERSION:
        raise NewerVersion("version", f"is {version}; this program reads {SNAPSHOT_VERSION}")
    if version != SNAPSHOT_VERSION:
        raise InvalidInput("version", f"is {version}; this program reads {SNAPSHOT_VERSION}")
    metrics = fields.optional("metrics")
    platform = fields.inner("platform")
    state = State(
        vm=vm_from_json(fields.inner("vm")),
        config=config_from_json(fields.inner("config")),
        plugin=_plugin_from_json(fields.inner("plugin"), now),
        monitor=_monitor_from_json(fields.inner("monitor"), now),
        platform=PlatformState(_amount(platform, "ongoing"), _optional_time(platform, "failed_at_ms", now)),
        metrics=None if metrics is None else metrics_from_json(metrics),
        mode=_choice(fields, "mode", Mode),
        observe_unit=_unit(fields, "observe_unit"),
    )
    problem = None if state.metrics is None else metrics_problem(state.metrics)
    if problem is not None:
        raise InvalidInput("metrics", problem)
    return state


def _plugin_to_json(plugin: PluginState) -> Json:
    last = plugin.last_request
    return {
        "alive": plugin.alive,
        "ongoing": plugin.ongoing,
        "compute_unit": _optional(plugin.compute_unit),
        "last_request": None
        if last is None
        else {"at_ms": last.at, "resources": resources_to_json(last.resources)},
        "failed_at_ms": plugin.failed_at,
        "permit": _optional(plugin.permit),
    }


def _plugin_from_json(fields: Fields, now: Millis) -> PluginState:
    last = fields.optional("last_request")
    ongoing = fields.boolean("ongoing")
    if ongoing and last is None:
        raise InvalidInput(fields.at("ongoing"), "is true, but there is no last_request")
    return PluginState(
        alive=fields.boolean("alive"),
        ongoing=ongoing,
        compute_unit=_unit(fields, "compute_unit"),
        last_request=None
        if last is None
        else SentRequest(_time(last, "at_ms", now), resources_from_json(last.inner("resources"))),
        failed_at=_optional_time(fields, "failed_at_ms", now),
        permit=_amount(fields, "permit"),
    )


def _monitor_to_json(monitor: MonitorState) -> Json:
    ongoing, asked, denied = monitor.ongoing, monitor.requested_upscale, monitor.denied_downscale
    return {
        "ongoing": None
        if ongoing is None
        else {"kind": ongoing.kind.value, "resources": resources_to_json(ongoing.resources)},
        "requested_upscale": None
        if asked is None
        else {
            "at_ms": asked.at,
            "base": resources_to_json(asked.base),
            "cpu": asked.cpu,
            "memory": asked.memory,
        },
        "denied_downscale": None
        if denied is None
        else {
            "at_ms": denied.at,
            "current": resources_to_json(denied.current),
            "requested": resources_to_json(denied.requested),
        },
        "approved": _optional(monitor.approved),
        "downscale_failed_at_ms": monitor.downscale_failed_at,
        "upscale_failed_at_ms": monitor.upscale_failed_at,
    }


def _monitor_from_json(fields: Fields, now: Millis) -> MonitorState:
    ongoing = fields.optional("ongoing")
    asked = fields.optional("requested_upscale")
    denied = fields.optional("denied_downscale")
    return MonitorState(
        ongoing=None
        if ongoing is None
        else MonitorRequest(
            _choice(ongoing, "kind", RequestKind), resources_from_json(ongoing.inner("resources"))
        ),
        requested_upscale=None
        if asked is None
        else RequestedUpscale(
            _time(asked, "at_ms", now),
            resources_from_json(asked.inner("base")),
            asked.boolean("cpu"),
            asked.boolean("memory"),
        ),
        denied_downscale=None
        if denied is None
        else DeniedDownscale(
            _time(denied, "at_ms", now),
            resources_from_json(denied.inner("current")),
            resources_from_json(denied.inner("requested")),
        ),
        approved=_amount(fields, "approved"),
        downscale_failed_at=_optional_time(fields, "downscale_failed_at_ms", now),
        upscale_failed_at=_optional_time(fields, "upscale_failed_at_ms", now),
    )


def _optional(amount: Resources | None) -> Json | None:
    return None if amount is None else resources_to_json(amount)


def _amount(fields: Fields, name: str) -> Resources | None:
    inner = fields.optional(name)
    return None if inner is None else resources_from_json(inner)


def _unit(fields: Fields, name: str) -> Resources | None:
    unit = _amount(fields, name)
    problem = None if unit is None else unit_problem(unit)
    if problem is not None:
        raise InvalidInput(fields.at(name), problem)
    return unit


def _time(fields: Fields, name: str, now: Millis) -> Millis:
    return Millis(min(fields.integer(name), now))


def _optional_time(fields: Fields, name: str, now: Millis) -> Millis | None:
    return _time(fields, name, now) if fields.has(name) else None


def _choice(fields: Fields, name: str, kinds: type[_Kind]) -> _Kind:
    text = fields.text(name)
    try:
        return kinds(text)
    except ValueError as err:
        allowed = " or ".join(repr(str(kind)) for kind in kinds)
        raise InvalidInput(fields.at(name), f"must be {allowed}") from err
