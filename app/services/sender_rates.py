"""How many stats each sender may push: a bucket of tokens for each, filled at a fixed rate."""

from __future__ import annotations

from collections import OrderedDict

from app.ports.runtime import Clock

MAX_SENDERS = 10_000
"""Senders remembered, the last ones; one that was forgotten begins with a full bucket."""


class SenderRates:
    """Counts by sender.

    Args:
        per_s: stats a second in the long run.
        burst: stats at once, after a pause.
    """

    def __init__(self, clock: Clock, *, per_s: float, burst: int) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def may_send(self, sender: str, count: int) -> bool:
        """Whether the sender may push that many now; counts nothing."""
        return self._rest(sender) >= count

    def count(self, sender: str, count: int) -> None:
        """The sender has pushed that many."""
        self._left[sender] = (self._rest(sender) - count, self._clock.monotonic())
        self._left.move_to_end(sender)
        if len(self._left) > MAX_SENDERS:
            self._left.popitem(last=False)

    def _rest(self, sender: str) -> float:
        rest, as_of = self._left.get(sender, (float(self._burst), 0.0))
        return min(rest + (self._clock.monotonic() - as_of) * self._per_s, float(self._burst))
