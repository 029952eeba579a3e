"""The newest fencing token of each bucket, as a receiver of effects has seen it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

MAX_BUCKETS = 8_192
"""Buckets remembered, four times the most that a fleet has; beyond it the one unused for longest goes."""


@dataclass(slots=True)
class BucketFences:
    """Refuses what an earlier owner of a bucket still sends, also for VMs that the new one has not named yet.

    Tokens of different buckets can't be compared. A receiver that is started anew begins with none.
    """

    _newest: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def raise_to(self, bucket: str, token: int) -> int:
        """Note a token; returns the newest of the bucket. One that is below it must be refused.

        Args:
            bucket: "" for a sender who names none: nothing is noted then.
        """
        if not bucket:
            return token
        newest = max(self._newest.get(bucket, token), token)
        self._newest[bucket] = newest
        self._newest.move_to_end(bucket)
        if len(self._newest) > MAX_BUCKETS:
            self._newest.popitem(last=False)
        return newest
