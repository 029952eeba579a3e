"""A recorded load: samples in time, and what they say about each step of a simulation.

A sample's value holds until the next sample. The last one holds for the usual distance between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

LONE_SAMPLE_MS = 300_000
"""How long the value of a trace with one sample holds: five minutes, the period of most recordings."""
GAP_PERIODS = 3
"""Two samples that are further apart than so many usual distances have a gap between them."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Samples in the order of time.

    Attributes:
        name: where it comes from, for messages.
        times_ms: Unix milliseconds, each above the one before; at least one.
        values: per cent, finite and from 0 up, one for each time.
    """

    name: str
    times_ms: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def begin_ms(self) -> int:
        """Time of the first sample."""
        return self.times_ms[0]

    @property
    def period_ms(self) -> int:
        """The usual distance between two samples: the median."""
        distances = self._distances()
        return median_low(distances) if distances else LONE_SAMPLE_MS

    @property
    def end_ms(self) -> int:
        """When the last value ceases to hold."""
        return self.times_ms[-1] + self.period_ms

    def gaps_ms(self) -> list[int]:
        """Lengths of the gaps, in the order of time."""
        limit = GAP_PERIODS * self.period_ms
        return [distance for distance in self._distances() if distance > limit]

    def _distances(self) -> list[int]:
        return [after - before for before, after in zip(self.times_ms, self.times_ms[1:], strict=False)]


def step_means(trace: Trace, begin_ms: int, step_ms: int, count: int) -> list[float]:
    """The mean value of each of `count` steps from `begin_ms` on, so that no load is lost whatever the step.

    Before the first sample its value holds too.
    """
    times, values = trace.times_ms, trace.values
    last = len(times) - 1
    at = 0
    means: list[float] = []
    for number in range(count):
        now = begin_ms + number * step_ms
        end = now + step_ms
        while at < last and times[at + 1] <= now:
            at += 1
        if at == last or times[at + 1] >= end:
            means.append(values[at])
            continue
        parts = 0.0
        while now < end:
            until = end if at == last else min(end, times[at + 1])
            parts += values[at] * (until - now)
            now = until
            if at < last and times[at + 1] <= now:
                at += 1
        means.append(parts / step_ms)
    return means


def shifted(series: Sequence[float], steps: int) -> list[float]:
    """The series begun `steps` later in its course; what was skipped follows at its end."""
    begin = steps % len(series) if series else 0
    return [*series[begin:], *series[:begin]]
