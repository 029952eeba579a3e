"""The floor of a VM's memory after its guest ran out of it: its maximum, for a while.

A guest whose kernel had to kill a process had too little, whatever its averages say; just after the kill it
looks idle. So the least that it may have is raised, and the core does the rest. Our daemon tells how long ago
it was, which every worker sees alike; node_exporter tells the number of kills, whose rise we have to see.
"""

from __future__ import annotations

from app.adapters.qemu_guest import GuestMemory

HOLD_S = 300.0
"""For which the floor stays up after the last kill: long enough for what was killed to be started again."""


class MemoryFloor:
    """Whether one VM's floor is up; times are seconds on the monotonic clock.

    Args:
        hold_s: for how long after the last kill; 0: never.
    """

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._kills: int | None = None
        self._until = 0.0

    def take(self, memory: GuestMemory, now: float) -> bool:
        """Take what the guest has just said; whether that raised the floor anew."""
        was_raised = self.is_raised(now)
        if memory.oom_age_s is not None:
            self._until = max(self._until, now + self._hold_s - memory.oom_age_s)
        elif memory.oom_kills is not None and self._kills is not None and memory.oom_kills > self._kills:
            self._until = now + self._hold_s
        self._kills = memory.oom_kills
        return self.is_raised(now) and not was_raised

    def is_raised(self, now: float) -> bool:
        """Whether the VM may not have less than its maximum of memory now."""
        return self._hold_s > 0 and now < self._until
