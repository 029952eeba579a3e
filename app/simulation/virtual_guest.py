"""A virtual VM's physics: its demand against its size, the load that its kernel shows, and its sums."""

from __future__ import annotations

from app.core.model import Metrics
from app.core.resources import Resources
from app.simulation.cost import Tally
from app.simulation.load import Load, advance, settled
from app.simulation.scenario import VmScenario
from app.simulation.virtual_peers import allows_downscale, room_bytes


class VirtualGuest:
    """Time comes in as milliseconds since the run's beginning and never goes back.

    Attributes:
        granted: the size that it has.
        load: its load averages at the last moment that was looked at.
    """

    def __init__(self, plan: VmScenario) -> None:
        """A VM with its first size, whose load has been its first demand for long."""
        self.granted = plan.first
        self.load: Load = settled(min(plan.cpu[0], plan.first.cpu / 1000))
        self.tally = Tally()
        self._slot_bytes = plan.slot_bytes
        self._most = plan.max.mem
        self._wanted = (plan.cpu[0], plan.mem[0])
        self._at = self._tallied_at = 0

    @property
    def wanted_bytes(self) -> float:
        """Memory wanted now."""
        return self._wanted[1]

    @property
    def used_bytes(self) -> float:
        """Memory in use: what is wanted, as far as there is."""
        return min(self._wanted[1], self._granted_bytes)

    @property
    def is_cramped(self) -> bool:
        """Whether its monitor asks for memory: too little is left, and there may be more."""
        if self.granted.mem >= self._most:
            return False
        return self.used_bytes > room_bytes(self._granted_bytes)

    def is_content_with(self, size: Resources) -> bool:
        """Whether the monitor's memory rule allows going down to a size."""
        return size.mem >= self.granted.mem or allows_downscale(self.used_bytes, size.mem * self._slot_bytes)

    def want(self, now: int, cpu: float, mem_bytes: float) -> None:
        """The demand from now on."""
        self.settle(now)
        self._wanted = (cpu, mem_bytes)

    def resize(self, now: int, size: Resources) -> None:
        """Another size from now on."""
        self.settle(now)
        self.granted = size

    def sample(self, now: int) -> Metrics:
        """What a poll shows."""
        self._pass(now)
        return Metrics(self.load.load1, self.load.load5, self.used_bytes)

    def settle(self, now: int) -> None:
        """Enter what has passed up to now into the sums."""
        self._pass(now)
        elapsed = now - self._tallied_at
        if elapsed:
            self.tally.add(elapsed, self._wanted, self.granted, self._granted_bytes)
            self._tallied_at = now

    @property
    def _granted_bytes(self) -> int:
        return self.granted.mem * self._slot_bytes

    def _pass(self, now: int) -> None:
        if now > self._at:
            elapsed_s = (now - self._at) / 1000
            self.load = advance(self.load, elapsed_s, self._wanted[0], self.granted.cpu / 1000)
            self._at = now
