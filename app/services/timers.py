"""One timer per VM: when to ask its core again although nothing happened.

A later call replaces an earlier one for the same VM. One job for all; stale entries are skipped.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable, Hashable

from app.ports.runtime import Clock, Concurrency, Monotonic, Signal

logger = logging.getLogger(__name__)

MAX_SLEEP_S = 0.5
"""The job looks up at least this often, so that a stop is noticed."""


class Timers:
    """Calls `fire(key)` for each key whose time has come.

    Args:
        fire: must not wait for long; what needs to is spawned by it.
    """

    def __init__(self, clock: Clock, concurrency: Concurrency, fire: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._heap: list[tuple[float, int, Hashable]] = []
        self._due: dict[Hashable, float] = {}
        self._count = itertools.count()
        self._wake = concurrency.signal()

    def set(self, key: Hashable, in_s: float) -> None:
        """Fire for `key` in that many seconds, instead of when it was set to before."""
        at = self._clock.monotonic() + max(in_s, 0.0)
        self._due[key] = at
        heapq.heappush(self._heap, (at, next(self._count), key))
        if self._heap[0][0] == at:
            self._wake.set()

    def cancel(self, key: Hashable) -> None:
        """Forget the key's timer, if there is one."""
        self._due.pop(key, None)

    def run(self, stop: Signal) -> None:
        """Until `stop` is set."""
        while not stop.is_set():
            self._wake.clear()
            self._wake.wait(self._fire_due())

    def _fire_due(self) -> float:
        """Fire what is due; seconds until the next one."""
        while self._heap:
            at, _, key = self._heap[0]
            if self._due.get(key) != at:
                heapq.heappop(self._heap)
                continue
            rest = Monotonic(at - self._clock.monotonic())
            if rest > 0:
                return min(rest, MAX_SLEEP_S)
            heapq.heappop(self._heap)
            del self._due[key]
            try:
                self._fire(key)
            except Exception:
                logger.exception("timer failed", extra={"key": str(key)})
        return MAX_SLEEP_S
