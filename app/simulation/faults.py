"""Faults of the simulated fleet, switched on by name for all VMs, a fraction of them, or some by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from app.simulation.noise import noise


class Fault(StrEnum):
    """What can be made to go wrong; the names are those of `--fault` and of the control interface."""

    SLOW_PAGE = "slow-page"
    BROKEN_PAGE = "broken-page"
    MONITOR_SILENT = "monitor-silent"
    MONITOR_DENIES = "monitor-denies"
    PATCH_REFUSED = "patch-refused"
    PATCH_NOT_APPLIED = "patch-not-applied"
    PATCH_PARTIAL = "patch-partial"
    VM_DELETED = "vm-deleted"


FAULT_EFFECTS = {
    Fault.SLOW_PAGE: "the metrics page comes after 30 s",
    Fault.BROKEN_PAGE: "the metrics page is rubbish: cut short, NaN, negative, impossible or empty",
    Fault.MONITOR_SILENT: "the monitor takes connections and messages, and never answers",
    Fault.MONITOR_DENIES: "the monitor refuses every downscale",
    Fault.PATCH_REFUSED: "a new size is refused",
    Fault.PATCH_NOT_APPLIED: "a new size is accepted and never applied",
    Fault.PATCH_PARTIAL: "of a new size only the CPUs are applied",
    Fault.VM_DELETED: "the VM is deleted as soon as a new size is asked for",
}
"""What each fault does, for an operator."""


@dataclass(frozen=True, slots=True)
class FaultScope:
    """Whom a fault concerns: the named VMs, and by hash a fraction (0 to 1) of all."""

    fraction: float = 1.0
    names: frozenset[str] = frozenset()


@dataclass(slots=True)
class FaultBoard:
    """Which faults are on. The VMs of a fraction are always the same ones for the same seed."""

    seed: int
    _scopes: dict[Fault, FaultScope] = field(default_factory=dict)

    def switch_on(self, fault: Fault, *, fraction: float = 1.0, names: Collection[str] = ()) -> None:
        """Switch on for `names`, added to those named before, or with no names for a fraction of all.

        Raises:
            ValueError: the fraction is not between 0 and 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"{fault}: the fraction must be between 0 and 1")
        before = self._scopes.get(fault, FaultScope(0.0))
        if names:
            self._scopes[fault] = FaultScope(before.fraction, before.names | frozenset(names))
        else:
            self._scopes[fault] = FaultScope(fraction, before.names)

    def switch_off(self, fault: Fault, *, names: Collection[str] = ()) -> None:
        """Switch off for `names` that were named, or with no names for everyone."""
        before = self._scopes.pop(fault, None)
        if before is None or not names:
            return
        left = before.names - frozenset(names)
        if left or before.fraction > 0:
            self._scopes[fault] = FaultScope(before.fraction, left)

    def is_on(self, fault: Fault, vm: str) -> bool:
        """Whether the fault concerns this VM (`namespace/name`)."""
        scope = self._scopes.get(fault)
        if scope is None:
            return False
        return vm in scope.names or (scope.fraction > 0 and noise(self.seed, fault, vm) < scope.fraction)

    def facts(self) -> dict[str, object]:
        """What is on, as plain JSON: by fault, its fraction and its names."""
        return {
            fault.value: {"fraction": scope.fraction, "names": sorted(scope.names)}
            for fault, scope in sorted(self._scopes.items())
        }
