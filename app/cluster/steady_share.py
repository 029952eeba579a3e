"""Which fair share counts while workers come and go: hand over late, and take modestly after an absence.

Source of the rule: `spec/forwarder.md`, "Leases in Redis" ("Fair share"). Without this a worker that starts
and dies again and again would be handed buckets each time, which then wait for the end of their leases; and
the first worker to reach Redis after an outage would take everything, only to hand it back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """How many buckets to hold at most.

    Attributes:
        take: free buckets are taken up to this.
        keep: what is held above this is surplus, to be handed over; never below `take`.
    """

    take: int
    keep: int


class SteadyShare:
    """Turns the share of each moment into the one that counts. Times are the caller's monotonic seconds.

    Args:
        settle_s: a smaller share counts for handing over once it has stood for so long.
        away_s: without a look for longer, others may have been away too.
        return_s: after such an absence nothing is taken above the share of before for so long, until the
            others' heartbeats are back.
    """

    def __init__(self, *, settle_s: float, away_s: float, return_s: float) -> None:
        self._settle_s = settle_s
        self._away_s = away_s
        self._return_s = return_s
        self._seen: deque[tuple[float, int]] = deque()
        self._modest_until = float("-inf")
        self._modest_share = 0

    def look(self, share: int, now: float) -> Share:
        """The share that counts, after one more look at the live workers."""
        if self._seen and now - self._seen[-1][0] > self._away_s:
            self._modest_until, self._modest_share = now + self._return_s, self._seen[-1][1]
        while self._seen and now - self._seen[0][0] >= self._settle_s:
            self._seen.popleft()
        self._seen.append((now, share))
        take = min(share, self._modest_share) if now < self._modest_until else share
        return Share(take, max(seen for _, seen in self._seen))
