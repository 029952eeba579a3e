"""What the decision core knows of a VM and of its settings (`spec/core.md`, "State")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from app.core.resources import Resources

Millis = NewType("Millis", int)
"""Unix time or a duration in milliseconds; `now` never goes back for one VM."""


class Mode(StrEnum):
    """Whether a VM is scaled, or only observed: decided and explained, but nothing is asked of anyone."""

    SCALE = "scale"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    """Targets of use.

    Attributes:
        load_average_fraction_target: load average per CPU to aim at, 0 < x < 2.
        memory_usage_fraction_target: share of memory in use to aim at, 0 < x < 1.
    """

    load_average_fraction_target: float
    memory_usage_fraction_target: float


@dataclass(frozen=True, slots=True)
class CoreVm:
    """A VM as the core sees it.

    Attributes:
        min: least that it may be asked down to.
        max: most that it may be asked up to.
        use: what it uses now.
        slot_bytes: size of a memory slot.
        scaling_config: its own targets, or None for the default ones.
    """

    name: str
    namespace: str
    min: Resources
    max: Resources
    use: Resources
    slot_bytes: int
    scaling_config: ScalingConfig | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """One sample.

    Attributes:
        load1: load average over a minute.
        load5: load average over five minutes.
        mem_bytes: memory in use, the kernel's share included.
    """

    load1: float
    load5: float
    mem_bytes: float


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Settings of the core; all waits in milliseconds, named as in `vectors/README.md`."""

    default_scaling_config: ScalingConfig
    platform_retry_wait: Millis
    plugin_request_tick: Millis
    plugin_retry_wait: Millis
    plugin_denied_retry_wait: Millis
    monitor_denied_downscale_cooldown: Millis
    monitor_downscale_follow_up_wait: Millis
    monitor_requested_upscale_valid_period: Millis
    monitor_retry_wait: Millis
