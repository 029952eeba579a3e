"""A trace played in the time of a simulated fleet: at any speed, again and again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.simulation.trace import Trace

LEAST_SPEED = 1e-3
MOST_SPEED = 1e6
"""Two weeks in a bit more than a second; beyond that every second shows the mean of the whole trace."""


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """What `vmscaler sim` is to play, and on which VMs.

    Attributes:
        traces: the chosen VMs play them in turn; at least one.
        speed: seconds of the trace that pass in one second, above zero.
        milli_cpus: what 100 in a trace is, in milli-vCPU; None: the maximum of the VM that plays it.
        share: of all VMs, evenly spread; counts where there are no names.
        names: of the VMs that play, alone or with their namespace.
    """

    traces: tuple[Trace, ...]
    speed: float = 1.0
    milli_cpus: int | None = None
    share: float = 1.0
    names: tuple[str, ...] = ()


class PlayedTrace:
    """The trace's value at any age of whoever plays it. After its end it begins again; immutable."""

    def __init__(self, trace: Trace, speed: float) -> None:
        """Begin the trace at age 0, so that `speed` of its seconds pass in each second."""
        self._times = tuple(time - trace.begin_ms for time in trace.times_ms)
        self._values = trace.values
        self._length = trace.end_ms - trace.begin_ms
        self._speed = speed
        ends = (*self._times[1:], self._length)
        spans = (end - time for time, end in zip(self._times, ends, strict=True))
        parts = (value * span for value, span in zip(self._values, spans, strict=True))
        self._sums = tuple(accumulate(parts, initial=0.0))

    def mean(self, age_s: float) -> float:
        """The mean value, in per cent, of what is played in the second from this age (≥ 0) on.

        The mean, so that a fast trace loses no load between two seconds.
        """
        begin = age_s * self._speed * 1000 % self._length
        span = self._speed * 1000
        at = bisect_right(self._times, begin) - 1
        if begin + span <= (self._times[at + 1] if at + 1 < len(self._times) else self._length):
            return self._values[at]
        return max(0.0, (self._sum_until(begin + span) - self._sum_until(begin)) / span)

    def _sum_until(self, time_ms: float) -> float:
        """Per cent times milliseconds from the trace's beginning on, all rounds counted."""
        rounds, rest = divmod(time_ms, self._length)
        at = bisect_right(self._times, rest) - 1
        return rounds * self._sums[-1] + self._sums[at] + self._values[at] * (rest - self._times[at])


def players(choice: TraceChoice, keys: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Which VMs play which trace (by its number), and the names that no VM has.

    Args:
        keys: of all VMs (`namespace/name`), in the fleet's order.
    """
    if choice.names:
        chosen = [key for key in keys if _is_named(key, choice.names)]
        unknown = tuple(name for name in choice.names if not any(_is_named(key, (name,)) for key in keys))
    else:
        marks = [int(round(number * choice.share, 9)) for number in range(len(keys) + 1)]
        chosen = [key for at, key in enumerate(keys) if marks[at + 1] > marks[at]]
        unknown = ()
    return {key: number % len(choice.traces) for number, key in enumerate(chosen)}, unknown


def _is_named(key: str, names: Collection[str]) -> bool:
    return key in names or key.partition("/")[2] in names
