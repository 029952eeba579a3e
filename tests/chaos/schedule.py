"""Which fault comes when, to whom and for how long: decided by a seed and the run's length alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

FIRST_AT_S = 3.0
"""The run's first fault comes no earlier."""

LAST_MARGIN_S = 2.0
"""Every fault is over so long before the run's end."""

LONG_OUTAGE_S = 120.0
"""Of Redis, once in a run that is long enough for it."""

LONG_RUN_S = 900.0
"""From this length on a run has a long outage."""

MIDDLE_RUN_S = 120.0
"""From this length on a run has outages of up to 30 s."""

HEALTHY_WORKERS = 2
"""So many workers at least are left alone at any moment (1 of 2 or 3 workers)."""


class Kind(StrEnum):
    """What is done."""

    KILL = "kill"
    TERM = "term"
    STOP = "stop"
    CUT = "cut"
    REDIS = "redis"


WHAT = {
    Kind.KILL: "SIGKILL",
    Kind.TERM: "SIGTERM",
    Kind.STOP: "SIGSTOP, then SIGCONT",
    Kind.CUT: "network to Redis cut: packets dropped, then delivered or the connections reset",
    Kind.REDIS: "Redis ended and started again",
}
"""In words, for the report."""

_BAG = (Kind.KILL, Kind.KILL, Kind.TERM, Kind.TERM, Kind.STOP, Kind.STOP, Kind.CUT, Kind.CUT, Kind.REDIS)

RESTART_S = 8.0
"""How long a worker that was ended counts as not healthy: until it is back and at work."""

RECOVERY_S = 10.0
"""No fault comes for so long after an outage of Redis: else most of a run would be recovery."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at_s: from the run's begin.
        worker: 1 and up; 0 for Redis.
        for_s: how long it lasts; 0 for a kill.
        how: `kill` or `term` for Redis; `resume` or `reset` for the end of a cut; else empty.
    """

    at_s: float
    kind: Kind
    worker: int
    for_s: float
    how: str = ""

    @property
    def end_s(self) -> float:
        """When it is over, from the run's begin."""
        return self.at_s + self.for_s

    def text(self) -> str:
        """A line for an operator."""
        whom = "redis" if self.worker == 0 else f"worker{self.worker}"
        span = f" for {self.for_s:.1f} s" if self.for_s else ""
        how = f" ({self.how})" if self.how else ""
        return f"{self.at_s:7.1f} s  {self.kind.value:<5} {whom}{span}{how}"


def make_schedule(seconds: float, seed: int, workers: int) -> tuple[Fault, ...]:
    """The faults of a run, in the order of their begin; the same for the same arguments.

    A bag holds each kind, and is emptied before it is filled again: a run of 180 s has all of them.
    """
    dice = random.Random(f"{seed}/{seconds:g}/{workers}")
    outages = _Outages(seconds, dice)
    faults: list[Fault] = []
    bag: list[Kind] = []
    now = FIRST_AT_S + dice.uniform(0, 2)
    end = seconds - LAST_MARGIN_S
    while now < end:
        if not bag:
            bag = dice.sample(_BAG, len(_BAG))
        fault = _draw(bag[-1], now, dice, outages, _free_workers(faults, now, workers))
        if fault is not None:
            bag.pop()
        if fault is not None and fault.end_s <= end:
            faults.append(fault)
            now = fault.end_s + RECOVERY_S if fault.kind is Kind.REDIS else now
        now += dice.choice((dice.uniform(0.2, 1.5), dice.uniform(2, 6), dice.uniform(3, 8)))
    return tuple(faults)


class _Outages:
    """Lengths of Redis' outages: short, up to 30 s, middling, in turn; the long one once."""

    def __init__(self, seconds: float, dice: random.Random) -> None:
        self._dice = dice
        self._ranges = [(0.2, 2.0), (10.0, 30.0), (3.0, 8.0)]
        if seconds < MIDDLE_RUN_S:
            self._ranges = [(0.2, 2.0), (3.0, 6.0)]
        self._dice.shuffle(self._ranges)
        self._turn = 0
        self._has_long = seconds >= LONG_RUN_S

    def next_s(self) -> float:
        self._turn += 1
        if self._has_long and self._turn == 4:
            return LONG_OUTAGE_S
        low, high = self._ranges[self._turn % len(self._ranges)]
        return round(self._dice.uniform(low, high), 1)


def _free_workers(faults: list[Fault], now: float, workers: int) -> list[int]:
    """Workers that nothing has befallen; none while too few would be left alone."""
    hurt = {
        fault.worker
        for fault in faults
        if fault.worker and fault.at_s + max(fault.for_s + 1, RESTART_S) > now
    }
    healthy = min(HEALTHY_WORKERS, workers - 1)
    if workers - len(hurt) <= healthy:
        return []
    return [number for number in range(1, workers + 1) if number not in hurt]


def _draw(kind: Kind, now: float, dice: random.Random, outages: _Outages, free: list[int]) -> Fault | None:
    """One fault of a kind; None where nobody is free for it."""
    if kind is Kind.REDIS:
        return Fault(now, kind, 0, outages.next_s(), dice.choice(("term", "kill")))
    if not free:
        return None
    worker = dice.choice(free)
    match kind:
        case Kind.STOP:
            length = dice.choice((dice.uniform(1, 5), dice.uniform(5, 15), dice.uniform(15, 30)))
            return Fault(now, kind, worker, round(length, 1))
        case Kind.CUT:
            length = dice.choice((0.0, dice.uniform(0.5, 5), dice.uniform(5, 25)))
            how = dice.choice(("resume", "reset")) if length else "reset"
            return Fault(now, kind, worker, round(length, 1), how)
        case _:
            return Fault(now, kind, worker, 0.0)
