"""Amounts of CPU and memory, compared field by field.

Integers only: CPU in milli-vCPU, memory in slots (a slot's size in bytes belongs to the VM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

MilliCpu = NewType("MilliCpu", int)
Slots = NewType("Slots", int)


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of CPU and memory.

    Attributes:
        cpu: milli-vCPU; 1000 is one CPU.
        mem: memory slots.
    """

    cpu: MilliCpu
    mem: Slots

    def max(self, other: Resources) -> Resources:
        """The larger of the two, field by field."""
        return Resources(
            self.cpu if self.cpu >= other.cpu else other.cpu, self.mem if self.mem >= other.mem else other.mem
        )

    def min(self, other: Resources) -> Resources:
        """The smaller of the two, field by field."""
        return Resources(
            self.cpu if self.cpu <= other.cpu else other.cpu, self.mem if self.mem <= other.mem else other.mem
        )

    def has_field_above(self, other: Resources) -> bool:
        """Whether at least one field is greater than the other's."""
        return self.cpu > other.cpu or self.mem > other.mem

    def has_field_below(self, other: Resources) -> bool:
        """Whether at least one field is smaller than the other's."""
        return self.cpu < other.cpu or self.mem < other.mem

    def has_zero_field(self) -> bool:
        """Whether either field is zero (or below)."""
        return self.cpu <= 0 or self.mem <= 0


def resources(cpu: int, mem: int) -> Resources:
    """Build an amount from plain integers: milli-vCPU and slots."""
    return Resources(MilliCpu(cpu), Slots(mem))
