"""What the demo of real VMs has its guests do, and what must have been seen from inside of them; pure.

One VM gets four busy threads for a minute; when those have ended, the other one a hog that grows past what it
has. Each step is noted when the guest itself says so: its CPUs online are `nproc`, its memory is MemTotal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1 << 20
CPU_LOAD_MILLI = 4000
CPU_LOAD_S = 60
"""The load average needs half of it to say what four threads are."""
MEMORY_LOAD = 600_000_000
MEMORY_LOAD_S = 70
"""At 12 MiB a second the hog is whole after 48 s."""
SAME_MEMORY = 64 * MIB
"""What MemTotal may differ by and still be that of the start; a step is at least twice that."""

OVER = "over"
"""How a load that was not killed says that it has ended."""


@dataclass(frozen=True, slots=True)
class GuestFacts:
    """What a guest said of itself.

    Attributes:
        cpus: online.
        total, available: its memory, bytes.
        is_loaded: a load runs.
        load_ended: how the last one ended; None: none has.
    """

    cpus: int
    total: int
    available: int
    is_loaded: bool
    load_ended: str | None


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """A load to be put on a VM."""

    vm: str
    milli_cpu: int
    memory: int
    seconds: int


@dataclass(slots=True)
class DemoScript:
    """Goes through the steps; `step` is called about once a second with what the guests say.

    Args:
        cpu_vm: the VM that gets the busy threads.
        memory_vm: the one that gets the hog.

    Attributes:
        reached: seconds at which each step was seen, in their order.
        problems: what must not happen and did.
    """

    cpu_vm: str
    memory_vm: str
    reached: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    most_cpus: int = 0
    most_memory: int = 0
    least_available: int | None = None
    _first: dict[str, GuestFacts] = field(default_factory=dict)

    def step(self, now_s: float, facts: Mapping[str, GuestFacts], *, is_ready: bool) -> list[LoadOrder]:
        """Take what the guests say; the loads to put on now.

        Args:
            facts: of guests that have answered; a silent one is missing.
            is_ready: the fleet polls both VMs, and may ask for permits.
        """
        for name, each in facts.items():
            self._first.setdefault(name, each)
        if "ready" not in self.reached:
            if not is_ready or not {self.cpu_vm, self.memory_vm} <= set(self._first):
                return []
            self.reached["ready"] = now_s
            return self._begin("cpu load", now_s, LoadOrder(self.cpu_vm, CPU_LOAD_MILLI, 0, CPU_LOAD_S))
        if self.cpu_vm in facts:
            self._take_cpus(now_s, facts[self.cpu_vm])
        if "cpu load over" in self.reached and "memory load" not in self.reached:
            return self._begin("memory load", now_s, LoadOrder(self.memory_vm, 0, MEMORY_LOAD, MEMORY_LOAD_S))
        if "memory load" in self.reached and self.memory_vm in facts:
            self._take_memory(now_s, facts[self.memory_vm])
        return []

    def is_complete(self) -> bool:
        """Whether all steps were seen."""
        return not self.missing()

    def missing(self) -> tuple[str, ...]:
        """What has to be seen and was not, a phrase each, and what must not happen and did."""
        wanted = {
            "ready": "the fleet never had both VMs",
            "cpu up": "no CPU was added under load, says nproc",
            "cpu down": "the CPUs did not go back after the load, says nproc",
            "memory up": "no memory was added for the hog, says MemTotal",
            "memory load over": "the hog did not reach its end",
            "memory down": "the memory did not go back after the load, says MemTotal",
        }
        absent = tuple(text for name, text in wanted.items() if name not in self.reached)
        return (*absent, *self.problems)

    def lines(self) -> tuple[str, ...]:
        """What was reached, a line each, with times from the begin of the load that it answers."""
        reached = self.reached
        lines = []
        for name, since, text in (
            ("cpu up", "cpu load", f"CPUs: {self._cpus(0)} -> {self.most_cpus}, the first"),
            ("cpu down", "cpu load over", f"CPUs: back at {self._cpus(0)}"),
            (
                "memory up",
                "memory load",
                f"MemTotal: {self._memory_mib()} -> {self.most_memory >> 20} MiB, first",
            ),
            ("memory down", "memory load over", f"MemTotal: back at {self._memory_mib()} MiB"),
        ):
            if name in reached:
                what = "its end" if "over" in since else "the load began"
                lines.append(f"{text} {reached[name] - reached[since]:.0f} s after {what}")
        if self.least_available is not None:
            lines.append(
                f"the hog was never without memory: {self.least_available >> 20} MiB available at least"
            )
        return tuple(lines)

    def _begin(self, name: str, now_s: float, order: LoadOrder) -> list[LoadOrder]:
        self.reached[name] = now_s
        return [order]

    def _take_cpus(self, now_s: float, facts: GuestFacts) -> None:
        first = self._first[self.cpu_vm].cpus
        self.most_cpus = max(self.most_cpus, facts.cpus)
        if facts.cpus > first:
            self.reached.setdefault("cpu up", now_s)
        if not facts.is_loaded and facts.load_ended is not None:
            self.reached.setdefault("cpu load over", now_s)
        if facts.cpus <= first and {"cpu up", "cpu load over"} <= set(self.reached):
            self.reached.setdefault("cpu down", now_s)

    def _take_memory(self, now_s: float, facts: GuestFacts) -> None:
        first = self._first[self.memory_vm].total
        self.most_memory = max(self.most_memory, facts.total)
        if facts.is_loaded:
            least = facts.available if self.least_available is None else self.least_available
            self.least_available = min(least, facts.available)
        if facts.total > first + SAME_MEMORY:
            self.reached.setdefault("memory up", now_s)
        if not facts.is_loaded and facts.load_ended is not None and "memory load over" not in self.reached:
            if facts.load_ended == OVER:
                self.reached["memory load over"] = now_s
            elif not self.problems:
                self.problems.append(f"the hog {facts.load_ended}: the guest ran out of memory")
        if facts.total <= first + SAME_MEMORY and {"memory up", "memory load over"} <= set(self.reached):
            self.reached.setdefault("memory down", now_s)

    def _cpus(self, default: int) -> int:
        return self._first[self.cpu_vm].cpus if self.cpu_vm in self._first else default

    def _memory_mib(self) -> int:
        return self._first[self.memory_vm].total >> 20 if self.memory_vm in self._first else 0
