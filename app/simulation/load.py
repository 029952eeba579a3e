"""Load averages as a kernel keeps them, for a demand that may exceed what is granted.

Work comes in at `demand` CPU seconds a second and is done at most at `granted`. What is not done queues up;
queued work is runnable too, in pieces of `PIECE_CPU_S`. The averages are exponential means of the number of
runnable pieces with time constants of 60, 300 and 900 s. They are exact for constant inputs: one long step
gives what many short ones give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PIECE_CPU_S = 5.0
"""CPU seconds in one piece of queued work: so many seconds of full use of a CPU add 1 to the load."""
PATIENCE_S = 20.0
"""The queue takes no more work once it holds this many seconds of demand: who would wait longer goes away."""
_WINDOWS_S = (60.0, 300.0, 900.0)
_SHORTEST_S = 1e-9
"""Below this a step is no step; guards the division by a vanishing rate."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load averages over 1, 5 and 15 minutes and the work that waits.

    Attributes:
        backlog: CPU seconds of work that came in and are not done.
        busy: CPU seconds done since the beginning.
    """

    load1: float = 0.0
    load5: float = 0.0
    load15: float = 0.0
    backlog: float = 0.0
    busy: float = 0.0


def settled(demand: float) -> Load:
    """The load of a machine that has had this demand for ever, and could meet it."""
    return Load(demand, demand, demand)


def advance(load: Load, elapsed_s: float, demand: float, granted: float) -> Load:
    """The load after `elapsed_s` with constant `demand` and `granted` CPUs (both ≥ 0; neither is an integer).

    A step of zero or below changes nothing.
    """
    rest = elapsed_s
    while rest > _SHORTEST_S:
        step, load = _advance_piece(load, rest, demand, granted)
        rest -= step
    return load


def _advance_piece(load: Load, elapsed_s: float, demand: float, granted: float) -> tuple[float, Load]:
    """One stretch over which the number of runnable pieces is linear in time: (its length, load after it)."""
    growth = demand - granted
    backlog = load.backlog
    limit = max(backlog, PATIENCE_S * demand)
    if growth > 0 and backlog < limit:
        step = min(elapsed_s, max((limit - backlog) / growth, _SHORTEST_S))
        return step, _over(load, step, backlog, min(limit, backlog + growth * step), granted, granted)
    if growth > 0:
        return elapsed_s, _over(load, elapsed_s, limit, limit, granted, granted)
    if backlog > 0 and growth < 0:
        step = min(elapsed_s, max(backlog / -growth, _SHORTEST_S))
        return step, _over(load, step, backlog, max(0.0, backlog + growth * step), granted, granted)
    return elapsed_s, _over(load, elapsed_s, backlog, backlog, demand, demand)


def _over(load: Load, step: float, before: float, after: float, running: float, used: float) -> Load:
    """The averages after a step in which the backlog goes in a line from `before` to `after`."""
    first = running + before / PIECE_CPU_S
    slope = (after - before) / PIECE_CPU_S / step
    means = [
        _mean(old, first, slope, step, window)
        for old, window in zip((load.load1, load.load5, load.load15), _WINDOWS_S, strict=True)
    ]
    return Load(means[0], means[1], means[2], after, load.busy + used * step)


def _mean(old: float, first: float, slope: float, step: float, window: float) -> float:
    """Exponential mean after a line that begins at `first`, in closed form."""
    kept = math.exp(-step / window)
    return old * kept + first * (1 - kept) + slope * (step - window * (1 - kept))
