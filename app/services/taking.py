"""What a worker takes and hands over at each look at all leases (`spec/forwarder.md`, "Fair share").

It takes what is free up to its share, hands over what is above it, one bucket at a time, and takes what is
left over in the share of a worker that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.cluster.lease import Lease, LeaseTimes, bucket_to_shed, buckets_to_try, fair_share
from app.cluster.steady_share import Share, SteadyShare
from app.ports.runtime import Clock
from app.ports.store import BucketName, LeaseView

SETTLE_RENEWALS = 2
"""Renewals for which the live workers must have stayed before buckets are handed over for them."""

RETURN_S = 1.0
"""After an outage the others are waited for so long before more than before is taken: two looks of theirs."""

UNTAKEN_S = 1.0
"""Where a bucket has been free for so long, nobody takes it: no more is handed over."""

LEFT_OVER_S = 0.4
"""What is free at two looks in a row is in no live worker's share: more than the fair share is taken then."""

LEFT_OVER_PART = 4
"""Above its share a worker takes at most a fourth of it at one look, so that the others take some, too."""


class Taking:
    """One worker's choices, look by look; what it holds is told each time.

    Args:
        total: buckets of the fleet.
    """

    def __init__(self, clock: Clock, total: int, agent_id: str, times: LeaseTimes) -> None:
        self._clock = clock
        self._total = total
        self._agent_id = agent_id
        self._duration_s = times.duration_s
        settle_s = self._settle_s = SETTLE_RENEWALS * times.renew_every_s
        self._share = SteadyShare(settle_s=settle_s, away_s=settle_s, return_s=RETURN_S)
        self._counts = Share(0, 0)
        self._all_taken_at = float("-inf")
        self._free_since: dict[BucketName, float] = {}
        self._above_share_until = float("-inf")

    def is_draining(self, view: LeaseView) -> bool:
        """Whether an operator wants everything handed over and nothing taken."""
        return self._agent_id in view.draining

    def to_take(self, view: LeaseView, free: Sequence[BucketName], held: int) -> list[str]:
        """Which of the free buckets to try; called once at each look.

        Args:
            held: how many buckets we hold.
        """
        share = self._counts = self._share_now(view)
        tried = buckets_to_try(free, held, share.take, self._agent_id)
        left_over = self._left_over(view, free)
        if not tried and left_over:
            tried = buckets_to_try(left_over, 0, max(share.take // LEFT_OVER_PART, 1), self._agent_id)
            self._above_share_until = self._clock.monotonic() + self._duration_s
        return tried

    def to_hand_over(self, view: LeaseView, held: Mapping[BucketName, Lease]) -> str | None:
        """The bucket that is surplus; asked where nothing is taken and nothing is being handed over."""
        return bucket_to_shed(held, self._counts.keep) if self._may_hand_over(view) else None

    def handed_over(self, bucket: BucketName) -> None:
        """For those whose share it is, though they may look seldom, before it counts as left over."""
        self._free_since[bucket] = self._clock.monotonic() + max(self._settle_s, UNTAKEN_S)

    def _share_now(self, view: LeaseView) -> Share:
        """What we may hold; nothing while draining, whatever the others do."""
        steady = self._share.look(fair_share(self._total, len(view.takers)), self._clock.monotonic())
        return Share(0, 0) if self.is_draining(view) else steady

    def _may_hand_over(self, view: LeaseView) -> bool:
        """Whether others take what is free: not in a new epoch, nor while workers that died count as live."""
        now = self._clock.monotonic()
        if all(row.holder is not None for row in view.leases.values()):
            self._all_taken_at = now
        is_taken = now - self._all_taken_at <= UNTAKEN_S and now >= self._above_share_until
        return (is_taken or self.is_draining(view)) and not view.silence_ms

    def _left_over(self, view: LeaseView, free: Sequence[BucketName]) -> list[BucketName]:
        """What stays free, though each live worker may take its share: it is in that of one that is gone.

        Its heartbeat counts for as long as it may believe in leases of its own.
        """
        now = self._clock.monotonic()
        self._free_since = {bucket: self._free_since.get(bucket, now) for bucket in free}
        is_modest = self._counts.take < fair_share(self._total, len(view.takers))
        if self.is_draining(view) or view.silence_ms or is_modest:
            return []
        return [bucket for bucket, since in self._free_since.items() if now - since >= LEFT_OVER_S]
