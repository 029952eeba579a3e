"""Whether a loop still turns, as seen from outside of it: what health means here is progress, not life.

The loop counts, another thread reads: plain numbers, no lock.
"""

from __future__ import annotations

from collections.abc import Callable

from app.ports.runtime import Clock


class Pulse:
    """Watches a number that grows with each turn.

    Args:
        turns: the number now.
        limit_s: without a turn for longer the loop counts as stuck.
        what: of the loop, for the reason.
    """

    def __init__(self, turns: Callable[[], int], clock: Clock, limit_s: float, what: str) -> None:
        self._turns = turns
        self._clock = clock
        self._limit_s = limit_s
        self._what = what
        self._seen = turns()
        self._since = clock.monotonic()

    @property
    def turns(self) -> int:
        """Turns until now."""
        return self._turns()

    def problem(self) -> str:
        """Why the process should be started again; "" while it need not be. Asked again and again."""
        now, turns = self._clock.monotonic(), self._turns()
        if turns != self._seen:
            self._seen, self._since = turns, now
        silent_s = now - self._since
        if silent_s <= self._limit_s:
            return ""
        return f"{self._what} has not had a turn for {silent_s:.0f} s"
