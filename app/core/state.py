"""What the core remembers of one VM (`spec/core.md`, "State").

Immutable: `app.core.transition.apply` gives a new one. All times are Unix milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.core.fields import LARGEST_INTEGER
from app.core.model import CoreConfig, CoreVm, Metrics, Millis, Mode, ScalingConfig
from app.core.resources import Resources
from app.errors import InvalidInput


class RequestKind(StrEnum):
    """What the monitor is being asked."""

    UPSCALE = "upscale"
    DOWNSCALE = "downscale"


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The last request to the scheduler, answered or not."""

    at: Millis
    resources: Resources


@dataclass(frozen=True, slots=True)
class MonitorRequest:
    """A request that the monitor has not answered yet."""

    kind: RequestKind
    resources: Resources


@dataclass(frozen=True, slots=True)
class RequestedUpscale:
    """The monitor asked for more.

    Attributes:
        base: what was approved when it asked; it needs more than that.
        cpu: more CPU was asked for.
        memory: more memory was asked for.
    """

    at: Millis
    base: Resources
    cpu: bool
    memory: bool


@dataclass(frozen=True, slots=True)
class DeniedDownscale:
    """The monitor refused to go from `current` down to `requested`."""

    at: Millis
    current: Resources
    requested: Resources


@dataclass(frozen=True, slots=True)
class PluginState:
    """The scheduler, as far as this VM is concerned.

    Attributes:
        alive: there is one.
        ongoing: `last_request` is not answered yet.
        compute_unit: the grain of a VM's size, as told last; kept across schedulers.
        permit: the most that the VM may use, as granted last; kept across schedulers.
        failed_at: time of the last failure with this scheduler.
    """

    alive: bool = False
    ongoing: bool = False
    compute_unit: Resources | None = None
    last_request: SentRequest | None = None
    failed_at: Millis | None = None
    permit: Resources | None = None


@dataclass(frozen=True, slots=True)
class MonitorState:
    """The monitor in the VM.

    Attributes:
        approved: what the monitor knows the VM to have, and lets it be taken down to; None: not active.
    """

    ongoing: MonitorRequest | None = None
    requested_upscale: RequestedUpscale | None = None
    denied_downscale: DeniedDownscale | None = None
    approved: Resources | None = None
    downscale_failed_at: Millis | None = None
    upscale_failed_at: Millis | None = None

    @property
    def is_active(self) -> bool:
        """Whether the monitor can be asked."""
        return self.approved is not None


@dataclass(frozen=True, slots=True)
class PlatformState:
    """Who patches the VM; `ongoing` is the size that was asked for and not yet observed."""

    ongoing: Resources | None = None
    failed_at: Millis | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a decision rests on, besides `now`.

    Attributes:
        vm: `vm.use` is what the VM is believed to use, whatever the platform described last.
        metrics: the last sample; None before the first one, and after a take-over.
        observe_unit: compute unit for the desired size of an observed VM, where no scheduler told one.
    """

    vm: CoreVm
    config: CoreConfig
    plugin: PluginState
    monitor: MonitorState
    platform: PlatformState
    metrics: Metrics | None
    mode: Mode
    observe_unit: Resources | None

    @property
    def scaling(self) -> ScalingConfig:
        """The targets in force: the VM's own, or the default ones."""
        return self.vm.scaling_config or self.config.default_scaling_config

    @property
    def compute_unit(self) -> Resources | None:
        """The unit in force: the scheduler's, or for an observed VM the one it was given."""
        return self.plugin.compute_unit or self.observe_unit


def initial_state(vm: CoreVm, config: CoreConfig) -> State:
    """A VM of which nothing is known but its description.

    Raises:
        InvalidInput: a slot of no size, or a target that can't be divided by.
    """
    problem = vm_problem(vm) or scaling_problem(config.default_scaling_config)
    if problem is not None:
        raise InvalidInput(f"VM {vm.namespace}/{vm.name}", problem)
    return State(vm, config, PluginState(), MonitorState(), PlatformState(), None, Mode.SCALE, None)


def vm_problem(vm: CoreVm) -> str | None:
    """Why nothing can be computed for this VM; bounds in any order are no problem."""
    if not 1 <= vm.slot_bytes <= LARGEST_INTEGER:
        return f"slot_bytes must be between 1 and {LARGEST_INTEGER}"
    return None if vm.scaling_config is None else scaling_problem(vm.scaling_config)


def scaling_problem(scaling: ScalingConfig) -> str | None:
    """Why these targets can't be divided by; None if they can."""
    if not _is_positive(scaling.load_average_fraction_target):
        return "load_average_fraction_target must be a finite number above 0"
    if not _is_positive(scaling.memory_usage_fraction_target):
        return "memory_usage_fraction_target must be a finite number above 0"
    return None


def unit_problem(unit: Resources) -> str | None:
    """Why this is no compute unit; None if it is one."""
    if unit.has_zero_field():
        return "has a zero field"
    if unit.cpu > LARGEST_INTEGER or unit.mem > LARGEST_INTEGER:
        return "is out of range"
    return None


def metrics_problem(metrics: Metrics) -> str | None:
    """Why this sample can't be believed; None if it can."""
    for name, value in (
        ("load1", metrics.load1),
        ("load5", metrics.load5),
        ("mem_bytes", metrics.mem_bytes),
    ):
        if not math.isfinite(value) or value < 0:
            return f"{name} is {value!r}, not a finite number from 0 up"
    return None


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
