"""A virtual machine in numbers: granted against demanded CPU and memory, and what its kernel shows of it."""

from __future__ import annotations

import math

from app.core.resources import Resources
from app.simulation.load import Load, advance, settled
from app.simulation.profiles import Demand, Workload, demand_at

MEMORY_DELAY_S = 4.0
"""Time constant with which memory in use follows the demand, in seconds."""
RESERVED_SHARE = 0.02
"""Part of the granted memory that the guest's kernel keeps out of MemTotal."""
UNUSABLE_SHARE = 0.03
"""Part of MemTotal that no workload gets, whatever its demand."""
LONGEST_STEP_S = 600.0
"""After a longer gap the model goes on from the present: nobody looked meanwhile."""


class VmModel:
    """One VM's physics. Time comes in as seconds since its birth and never goes back.

    Inputs change on whole seconds, so the result does not depend on how often `advance_to` is called.
    """

    def __init__(
        self, workload: Workload, granted: Resources, slot_bytes: int, *, age_s: float = 0.0
    ) -> None:
        """A VM that has had its first demand for long.

        Args:
            workload: what it wants.
            granted: the size that it has.
            slot_bytes: bytes of a memory slot.
            age_s: its age at the beginning (after a restart of the fleet).
        """
        self._workload = workload
        self._slot_bytes = slot_bytes
        self._granted = granted
        self._age_s = age_s
        self._override: Demand | None = None
        first = self.demand
        self._load = settled(min(first.cpu, granted.cpu / 1000))
        self._used = min(first.mem_bytes, self.most_bytes)

    @property
    def age_s(self) -> float:
        """Seconds since its birth, as last told."""
        return self._age_s

    @property
    def granted(self) -> Resources:
        """The size that it really has."""
        return self._granted

    @property
    def load(self) -> Load:
        """Its load averages now."""
        return self._load

    @property
    def demand(self) -> Demand:
        """What its workload wants now."""
        return self._override or demand_at(self._workload, math.floor(self._age_s))

    @property
    def total_bytes(self) -> int:
        """MemTotal: follows the granted memory."""
        return int(self._granted.mem * self._slot_bytes * (1 - RESERVED_SHARE))

    @property
    def used_bytes(self) -> int:
        """Memory that can't be reclaimed."""
        return int(self._used)

    @property
    def available_bytes(self) -> int:
        """MemAvailable: the rest, page cache included."""
        return max(0, self.total_bytes - self.used_bytes)

    @property
    def most_bytes(self) -> float:
        """The most that a workload can get hold of at this size."""
        return self.total_bytes * (1 - UNUSABLE_SHARE)

    def grant(self, size: Resources) -> None:
        """Change its size, from now on."""
        self._granted = size
        self._used = min(self._used, self.most_bytes)

    def override_demand(self, demand: Demand | None) -> None:
        """Set the demand by hand; None gives it back to its workload."""
        self._override = demand

    def advance_to(self, age_s: float) -> None:
        """Let time pass up to an age; an earlier one changes nothing."""
        if age_s - self._age_s > LONGEST_STEP_S:
            self._age_s = age_s - LONGEST_STEP_S
        while self._age_s < age_s:
            until = min(age_s, math.floor(self._age_s) + 1.0)
            self._pass(until - self._age_s)
            self._age_s = until

    def _pass(self, step_s: float) -> None:
        demand = self.demand
        self._load = advance(self._load, step_s, demand.cpu, self._granted.cpu / 1000)
        target = min(demand.mem_bytes, self.most_bytes)
        self._used = target + (self._used - target) * math.exp(-step_s / MEMORY_DELAY_S)
