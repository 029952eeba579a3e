"""What a run cost and what it lacked: sums over time of one VM, and the figures made of them.

Sizes are summed in integers (milli-CPU × ms, bytes × ms), so no order of summing matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.resources import Resources
from app.simulation.scenario import Scenario, VmScenario, least_size

GIB = 1 << 30
DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_TOLERANCE = 1e-9
"""Share of a demand that may be missing before it counts as less than needed: rounding."""


@dataclass(slots=True)
class Tally:
    """Running sums of one VM.

    Attributes:
        cpu: milli-CPU × ms allocated; `mem`: bytes × ms.
        wanted_cpu: CPUs × ms wanted; `wanted_mem`: bytes × ms.
        missing_cpu: CPUs × ms wanted beyond what was allocated; `missing_mem`: bytes × ms.
        short_ms: time with less of either than needed; `short_cpu_ms`, `short_mem_ms`: of that one.
        longest_ms: the longest uninterrupted shortage.
    """

    cpu: int = 0
    mem: int = 0
    wanted_cpu: float = 0.0
    wanted_mem: float = 0.0
    missing_cpu: float = 0.0
    missing_mem: float = 0.0
    short_ms: int = 0
    short_cpu_ms: int = 0
    short_mem_ms: int = 0
    longest_ms: int = 0
    _lasting_ms: int = 0

    def add(self, elapsed_ms: int, wanted: tuple[float, float], granted: Resources, mem_bytes: int) -> None:
        """Some time with a constant demand (CPUs, bytes) and a constant size."""
        cpu, mem = wanted
        self.cpu += granted.cpu * elapsed_ms
        self.mem += mem_bytes * elapsed_ms
        self.wanted_cpu += cpu * elapsed_ms
        self.wanted_mem += mem * elapsed_ms
        lacks_cpu = cpu - granted.cpu / 1000 > cpu * _TOLERANCE
        lacks_mem = mem - mem_bytes > mem * _TOLERANCE
        if lacks_cpu:
            self.missing_cpu += (cpu - granted.cpu / 1000) * elapsed_ms
            self.short_cpu_ms += elapsed_ms
        if lacks_mem:
            self.missing_mem += (mem - mem_bytes) * elapsed_ms
            self.short_mem_ms += elapsed_ms
        if lacks_cpu or lacks_mem:
            self.short_ms += elapsed_ms
            self._lasting_ms += elapsed_ms
            self.longest_ms = max(self.longest_ms, self._lasting_ms)
        elif elapsed_ms:
            self._lasting_ms = 0


@dataclass(slots=True)
class Counts:
    """What happened to one VM, counted."""

    upscales: int = 0
    downscales: int = 0
    direction_changes: int = 0
    denied: int = 0
    permits_cut: int = 0
    failures: int = 0
    _was_up: bool | None = None

    def resized(self, before: Resources, after: Resources) -> None:
        """A resize is done; up if anything grew."""
        is_up = after.has_field_above(before)
        if is_up:
            self.upscales += 1
        else:
            self.downscales += 1
        if self._was_up is not None and self._was_up is not is_up:
            self.direction_changes += 1
        self._was_up = is_up


@dataclass(frozen=True, slots=True)
class Hours:
    """One resource, in CPU-hours or GiB-hours.

    Attributes:
        allocated: what the VM had.
        demand: what it wanted.
        fixed: what a VM fixed at its maximum has.
        clairvoyant: the least in whole units within the bounds that meets the demand of every step.
        missing: demand beyond what it had, while it lacked some.
    """

    allocated: float
    demand: float
    fixed: float
    clairvoyant: float
    missing: float

    def plus(self, other: Hours) -> Hours:
        """The sum, figure by figure."""
        return Hours(
            self.allocated + other.allocated,
            self.demand + other.demand,
            self.fixed + other.fixed,
            self.clairvoyant + other.clairvoyant,
            self.missing + other.missing,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer for one VM, or for all together.

    Attributes:
        vm_ms: length of the run, times the number of VMs.
        short_ms: time with less than needed of either; the parts are in `short_cpu_ms` and `short_mem_ms`.
        denied: downscales that the monitor denied.
        permits_cut: permits for less than was asked.
        failures: polls and requests that failed.
    """

    vm_ms: int
    cpu: Hours
    mem: Hours
    short_ms: int
    short_cpu_ms: int
    short_mem_ms: int
    longest_ms: int
    upscales: int
    downscales: int
    direction_changes: int
    denied: int
    permits_cut: int
    failures: int

    @property
    def changes_per_day(self) -> float:
        """Changes of direction a day, per VM."""
        return self.direction_changes * DAY_MS / self.vm_ms


def figures_of(scenario: Scenario, vm: VmScenario, tally: Tally, counts: Counts) -> Figures:
    """The figures of one VM at the end of its run."""
    duration_ms = scenario.duration_ms
    least_cpu = least_mem = 0
    for cpu, mem in zip(vm.cpu, vm.mem, strict=True):
        least = least_size(vm, scenario.control.unit, cpu, mem)
        least_cpu += least.cpu
        least_mem += least.mem
    step_ms, slot = scenario.step_ms, vm.slot_bytes
    cpu_hours = Hours(
        tally.cpu / 1000 / _HOUR_MS,
        tally.wanted_cpu / _HOUR_MS,
        vm.max.cpu * duration_ms / 1000 / _HOUR_MS,
        least_cpu * step_ms / 1000 / _HOUR_MS,
        tally.missing_cpu / _HOUR_MS,
    )
    mem_hours = Hours(
        tally.mem / GIB / _HOUR_MS,
        tally.wanted_mem / GIB / _HOUR_MS,
        vm.max.mem * slot * duration_ms / GIB / _HOUR_MS,
        least_mem * slot * step_ms / GIB / _HOUR_MS,
        tally.missing_mem / GIB / _HOUR_MS,
    )
    return Figures(
        duration_ms,
        cpu_hours,
        mem_hours,
        tally.short_ms,
        tally.short_cpu_ms,
        tally.short_mem_ms,
        tally.longest_ms,
        counts.upscales,
        counts.downscales,
        counts.direction_changes,
        counts.denied,
        counts.permits_cut,
        counts.failures,
    )


def total_figures(parts: Sequence[Figures]) -> Figures:
    """All VMs together: sums, and the longest of the shortages; at least one part."""
    cpu, mem = parts[0].cpu, parts[0].mem
    for part in parts[1:]:
        cpu, mem = cpu.plus(part.cpu), mem.plus(part.mem)
    return Figures(
        sum(part.vm_ms for part in parts),
        cpu,
        mem,
        sum(part.short_ms for part in parts),
        sum(part.short_cpu_ms for part in parts),
        sum(part.short_mem_ms for part in parts),
        max(part.longest_ms for part in parts),
        sum(part.upscales for part in parts),
        sum(part.downscales for part in parts),
        sum(part.direction_changes for part in parts),
        sum(part.denied for part in parts),
        sum(part.permits_cut for part in parts),
        sum(part.failures for part in parts),
    )
