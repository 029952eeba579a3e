"""When the agent checks a vm-monitor's health, and when it gives up (`spec/monitor-protocol.md`).

Pure; `now` is monotonic seconds.
"""

from __future__ import annotations

import math

HEALTH_CHECK_PERIOD_S = 5.0
"""Seconds between checks (`spec/monitor-protocol.md`); the first comes one period after connecting."""


class HealthChecks:
    """The rhythm of one connection: checks do not overlap, a missed one is made up once.

    Args:
        now: when the connection was made.
        max_failures_s: failures in a row for longer than this end the connection, counted from the end of
            the first, and noticed when a later one fails.
        period_s: seconds between checks.
    """

    def __init__(self, now: float, *, max_failures_s: float, period_s: float = HEALTH_CHECK_PERIOD_S) -> None:
        self._start = now
        self._period_s = period_s
        self._max_failures_s = max_failures_s
        self._next = now + period_s
        self._is_running = False
        self._first_failure: float | None = None

    @property
    def next_at(self) -> float:
        """When the next check is due; infinity while one is under way."""
        return math.inf if self._is_running else self._next

    def is_due(self, now: float) -> bool:
        """Whether to begin a check now."""
        return now >= self.next_at

    def begin(self, now: float) -> None:
        """A check goes out. The next follows on the original grid: of those missed only this one is made."""
        self._is_running = True
        periods = math.floor((now - self._start) / self._period_s)
        self._next = self._start + (periods + 1) * self._period_s

    def succeed(self) -> None:
        """The check was answered."""
        self._is_running = False
        self._first_failure = None

    def fail(self, now: float) -> bool:
        """The check failed; whether to end the connection."""
        self._is_running = False
        if self._first_failure is None:
            self._first_failure = now
            return False
        return now - self._first_failure > self._max_failures_s
