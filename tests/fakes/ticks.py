"""Turns in memory; the clock's wall time stands for Redis' clock."""

from __future__ import annotations

from collections.abc import Sequence

from app.cluster.ring import bucket_names
from app.ports.runtime import Clock
from app.ports.store import BucketName


class MemoryTicks:
    """A `TickStore` and `TickReader`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[int, int | None]] = {}

    def lose_everything(self) -> None:
        """Redis has come back without its data."""
        self._last = {}

    def take_due(self, total: int, period_s: float) -> Sequence[tuple[BucketName, int]]:
        now, period = self._clock.wall_ms(), max(round(period_s * 1000), 1)
        due = []
        for index, name in enumerate(bucket_names(total)):
            phase = index * period / total
            seq, last_ms = self._last.get(name, (now - 1, None))
            if last_ms is not None and (
                abs(now - last_ms) < period / 2 or (now + phase) // period == (last_ms + phase) // period
            ):
                continue
            self._last[name] = (seq + 1, now)
            due.append((BucketName(name), seq + 1))
        return due

    def last_turns(self, total: int) -> Sequence[int | None]:
        return [self._last.get(name, (0, None))[1] for name in bucket_names(total)]
