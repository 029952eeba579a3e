"""Which buckets a tick brings a poll to: those whose turn has come, and that somebody holds.

What must be true: nothing is put into a queue that nobody consumes. A worker whose leases stand still (Redis
is in trouble, or the fleet has another number of buckets by now) knows of no queue that is consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.ports.store import BucketName, LeaseView, TickStore


class SeenLeases(Protocol):
    """The ownership service, as far as it is asked here."""

    problem: str | None

    def view(self) -> LeaseView | None:
        """All leases as of the last look; None before the first."""
        ...


def take_turns(
    ticks: TickStore, leases: SeenLeases, *, total: int, period_s: float
) -> Sequence[tuple[BucketName, int]]:
    """Each bucket that is to be polled now, with its new seq.

    A bucket that was taken since the last look is left out: its new owner polls it as it begins.

    Raises:
        StoreUnavailable: no turn was taken, or perhaps.
    """
    view = leases.view()
    if view is None or leases.problem is not None:
        return ()
    due = ticks.take_due(total, period_s)
    return [(bucket, seq) for bucket, seq in due if view.leases[bucket].holder is not None]
