"""The events that change a VM's core state, one dataclass each (`spec/core.md`, "Events").

`now` is Unix milliseconds. Applied by `app.core.transition.apply`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.model import CoreVm, Metrics, Millis, Mode
from app.core.resources import Resources


@dataclass(frozen=True, slots=True)
class UpdatedVm:
    """The platform describes the VM anew; what the state believes it uses is kept."""

    vm: CoreVm


@dataclass(frozen=True, slots=True)
class MetricsArrived:
    """A sample; None forgets the last one (at a take-over)."""

    metrics: Metrics | None


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """Scale or observe; `compute_unit` is used for the desired size where no scheduler told one."""

    mode: Mode
    compute_unit: Resources | None


@dataclass(frozen=True, slots=True)
class PluginNewScheduler:
    """There is a scheduler, and it is another one than before."""


@dataclass(frozen=True, slots=True)
class PluginGone:
    """There is no scheduler any more."""


@dataclass(frozen=True, slots=True)
class PluginStarting:
    """A request is about to be sent to the scheduler."""

    now: Millis
    resources: Resources


@dataclass(frozen=True, slots=True)
class PluginFailed:
    """The request to the scheduler failed or timed out."""

    now: Millis


@dataclass(frozen=True, slots=True)
class PluginSuccessful:
    """The scheduler answered; checked before it is believed."""

    now: Millis
    permit: Resources
    compute_unit: Resources


@dataclass(frozen=True, slots=True)
class MonitorReset:
    """The connection to the monitor is gone: everything about it is forgotten."""


@dataclass(frozen=True, slots=True)
class MonitorActive:
    """The monitor can be talked to, or no longer."""

    active: bool


@dataclass(frozen=True, slots=True)
class MonitorUpscaleRequested:
    """The monitor asks for more of cpu, memory or both."""

    now: Millis
    cpu: bool
    memory: bool


@dataclass(frozen=True, slots=True)
class MonitorStartingUpscale:
    """The monitor is about to be told of more resources."""

    now: Millis
    resources: Resources


@dataclass(frozen=True, slots=True)
class MonitorStartingDownscale:
    """The monitor is about to be asked for a downscale."""

    now: Millis
    resources: Resources


@dataclass(frozen=True, slots=True)
class MonitorUpscaleSuccessful:
    """The monitor confirmed the upscale."""


@dataclass(frozen=True, slots=True)
class MonitorUpscaleFailed:
    """Telling the monitor failed."""

    now: Millis


@dataclass(frozen=True, slots=True)
class MonitorDownscaleAllowed:
    """The monitor allows the downscale."""


@dataclass(frozen=True, slots=True)
class MonitorDownscaleDenied:
    """The monitor refuses the downscale."""

    now: Millis


@dataclass(frozen=True, slots=True)
class MonitorDownscaleFailed:
    """Asking the monitor failed."""

    now: Millis


@dataclass(frozen=True, slots=True)
class PlatformStarting:
    """The platform is about to be asked for a size."""

    resources: Resources


@dataclass(frozen=True, slots=True)
class PlatformSuccessful:
    """The observed size is the one that was asked for."""


@dataclass(frozen=True, slots=True)
class PlatformFailed:
    """The platform refused, did not answer, or did not apply in time."""

    now: Millis


@dataclass(frozen=True, slots=True)
class PlatformObserved:
    """The VM's real size, as seen at the platform; a request in flight is not touched."""

    now: Millis
    resources: Resources


Event = (
    UpdatedVm
    | MetricsArrived
    | ModeChanged
    | PluginNewScheduler
    | PluginGone
    | PluginStarting
    | PluginFailed
    | PluginSuccessful
    | MonitorReset
    | MonitorActive
    | MonitorUpscaleRequested
    | MonitorStartingUpscale
    | MonitorStartingDownscale
    | MonitorUpscaleSuccessful
    | MonitorUpscaleFailed
    | MonitorDownscaleAllowed
    | MonitorDownscaleDenied
    | MonitorDownscaleFailed
    | PlatformStarting
    | PlatformSuccessful
    | PlatformFailed
    | PlatformObserved
)

TIMED_EVENTS = (
    PluginStarting,
    PluginFailed,
    PluginSuccessful,
    MonitorUpscaleRequested,
    MonitorStartingUpscale,
    MonitorStartingDownscale,
    MonitorUpscaleFailed,
    MonitorDownscaleDenied,
    MonitorDownscaleFailed,
    PlatformFailed,
    PlatformObserved,
)
"""Those that carry a time."""


def at_least(event: Event, now: Millis) -> Event:
    """The event with a time not before `now`; the same object where it has none or a later one."""
    if isinstance(event, TIMED_EVENTS) and event.now < now:
        return replace(event, now=now)
    return event
