"""What a what-if run is made of: VMs with their demand, a node, and how the control plane is set.

All times are virtual: milliseconds since the run's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from app.core.model import CoreConfig
from app.core.permits import Amount
from app.core.resources import Resources, resources


@dataclass(frozen=True, slots=True)
class Delays:
    """How long the others take, in milliseconds.

    Attributes:
        permit: the scheduler, to answer.
        monitor: the monitor, to answer.
        resize: the platform, from being asked to the new size being there.
    """

    permit: int = 20
    monitor: int = 20
    resize: int = 1_000


@dataclass(frozen=True, slots=True)
class FailureRates:
    """Shares (0 to 1) of what goes wrong, chosen by the seed.

    Attributes:
        poll: polls that give no sample.
        permit: requests to the scheduler that fail.
        resize: resizes that fail.
        monitor: requests to the monitor that it does not answer.
        denial: downscales that the monitor denies though the memory would do.
    """

    poll: float = 0.0
    permit: float = 0.0
    resize: float = 0.0
    monitor: float = 0.0
    denial: float = 0.0


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Settings of who decides and of those whom it asks.

    Attributes:
        unit: the scheduler's compute unit.
        poll_ms: period of the polls of a VM.
    """

    core: CoreConfig
    unit: Resources
    poll_ms: int
    delays: Delays = Delays()
    rates: FailureRates = FailureRates()
    seed: int = 1


@dataclass(frozen=True, slots=True)
class VmScenario:
    """One VM and its demand.

    Attributes:
        first: its size at the beginning.
        cpu: CPUs wanted, one value a step.
        mem: bytes of memory wanted, the kernel's share included, one value a step.
    """

    name: str
    min: Resources
    max: Resources
    first: Resources
    slot_bytes: int
    cpu: Sequence[float]
    mem: Sequence[float]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole run.

    Attributes:
        steps: number of steps; every VM has so many values.
        capacity: what the node has for its VMs; memory in bytes.
    """

    step_ms: int
    steps: int
    control: ControlPlane
    vms: tuple[VmScenario, ...]
    capacity: Amount

    @property
    def duration_ms(self) -> int:
        """Length of the run."""
        return self.steps * self.step_ms


def least_size(vm: VmScenario, unit: Resources, cpu: float, mem_bytes: float) -> Resources:
    """The smallest size in whole units that meets a demand, within the VM's bounds: what a clairvoyant takes.

    A demand above the maximum gets the maximum.
    """
    units = max(ceil(cpu * 1000 / unit.cpu - _EPSILON), ceil(mem_bytes / (unit.mem * vm.slot_bytes)), 0)
    return resources(unit.cpu * units, unit.mem * units).min(vm.max).max(vm.min)


_EPSILON = 1e-9
"""Units by which a demand may exceed a size and be met: what rounding of its computation can add."""
