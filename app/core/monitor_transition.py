"""The monitor's events (`spec/core.md`, "Events", rows that begin with "monitor")."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from app.core.events import (
    MonitorActive,
    MonitorDownscaleAllowed,
    MonitorDownscaleDenied,
    MonitorDownscaleFailed,
    MonitorReset,
    MonitorStartingDownscale,
    MonitorStartingUpscale,
    MonitorUpscaleFailed,
    MonitorUpscaleRequested,
    MonitorUpscaleSuccessful,
)
from app.core.model import Millis
from app.core.resources import Resources
from app.core.state import DeniedDownscale, MonitorRequest, MonitorState, RequestedUpscale, RequestKind

_Answer = (
    MonitorUpscaleSuccessful
    | MonitorUpscaleFailed
    | MonitorDownscaleAllowed
    | MonitorDownscaleDenied
    | MonitorDownscaleFailed
)
MonitorEvent = (
    MonitorReset
    | MonitorActive
    | MonitorUpscaleRequested
    | MonitorStartingUpscale
    | MonitorStartingDownscale
    | _Answer
)

_Part = tuple[MonitorState, str | None]


def apply_to_monitor(monitor: MonitorState, use: Resources, event: MonitorEvent) -> _Part:
    """The monitor's part after `event`, and why it was refused, if it was (then it is the same object)."""
    match event:
        case MonitorReset():
            return MonitorState(), None
        case MonitorActive(active):
            return replace(monitor, approved=use if active else None), None
        case MonitorUpscaleRequested(now, cpu, memory):
            if monitor.approved is None:
                return monitor, "upscale requested: the monitor is not active"
            asked = RequestedUpscale(now, monitor.approved, cpu, memory)
            return replace(monitor, requested_upscale=asked), None
        case MonitorStartingUpscale(_, resources):
            return _start(monitor, MonitorRequest(RequestKind.UPSCALE, resources))
        case MonitorStartingDownscale(_, resources):
            return _start(monitor, MonitorRequest(RequestKind.DOWNSCALE, resources))
        case _:
            return _take_answer(monitor, event)


def _start(monitor: MonitorState, request: MonitorRequest) -> _Part:
    what = f"monitor starting {request.kind}"
    if monitor.approved is None:
        return monitor, f"{what}: the monitor is not active"
    if monitor.ongoing is not None:
        return monitor, f"{what}: a monitor {monitor.ongoing.kind} is already ongoing"
    if request.kind is RequestKind.UPSCALE:
        return replace(monitor, ongoing=request, upscale_failed_at=None), None
    return replace(monitor, ongoing=request, downscale_failed_at=None), None


def _take_answer(monitor: MonitorState, event: _Answer) -> _Part:
    match event:
        case MonitorUpscaleSuccessful() | MonitorUpscaleFailed():
            kind = RequestKind.UPSCALE
        case MonitorDownscaleAllowed() | MonitorDownscaleDenied() | MonitorDownscaleFailed():
            kind = RequestKind.DOWNSCALE
        case _:
            assert_never(event)
    ongoing = monitor.ongoing
    if ongoing is None:
        return monitor, f"answer to a monitor {kind}: no monitor request is ongoing"
    if ongoing.kind is not kind:
        return monitor, f"answer to a monitor {kind}: the ongoing request is a {ongoing.kind}"
    match event:
        case MonitorUpscaleSuccessful() | MonitorDownscaleAllowed():
            return replace(monitor, ongoing=None, approved=ongoing.resources), None
        case MonitorUpscaleFailed(now):
            return replace(monitor, ongoing=None, upscale_failed_at=now), None
        case MonitorDownscaleFailed(now):
            return replace(monitor, ongoing=None, downscale_failed_at=now), None
        case MonitorDownscaleDenied(now):
            return _deny(monitor, ongoing, now), None


def _deny(monitor: MonitorState, ongoing: MonitorRequest, now: Millis) -> MonitorState:
    """Remember the denial; one by a monitor that is no longer active binds nobody, but ends the request."""
    if monitor.approved is None:
        return replace(monitor, ongoing=None)
    denied = DeniedDownscale(now, monitor.approved, ongoing.resources)
    return replace(monitor, ongoing=None, denied_downscale=denied)
