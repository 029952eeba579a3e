"""Stats that wait for their bucket's owner, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from app.errors import OwnershipLost, PeerRefused, StoreUnavailable
from app.ports.store import BucketName, FencingToken


class MemoryStats:
    """A `StatQueue`; `is_away` makes every call fail, `forgets_answers` those that have taken effect."""

    def __init__(self, *, max_queued: int = 10_000, between: Callable[[], None] = lambda: None) -> None:
        self._max_queued = max_queued
        self._between = between
        self.fences: dict[BucketName, int] = defaultdict(int)
        self.lists: dict[BucketName, list[bytes]] = defaultdict(list)
        self.total: int | None = None
        self.is_away = False
        self.forgets_answers = False
        self.reads = 0

    def put(self, bucket: BucketName, stat: bytes) -> int:
        self._answer()
        if self.total is not None and not bucket.endswith(f"-of-{self.total:02}"):
            raise PeerRefused(bucket, "the fleet has another number of buckets by now")
        waiting = self.lists[bucket]
        if len(waiting) >= self._max_queued:
            raise PeerRefused(bucket, "too many stats wait already")
        waiting.append(stat)
        self._lose_answer()
        return len(waiting)

    def read(self, bucket: BucketName, start: int, count: int) -> Sequence[bytes]:
        self._answer()
        self.reads += 1
        return self.lists[bucket][start : start + count]

    def remove(self, bucket: BucketName, token: FencingToken, stats: Sequence[bytes]) -> None:
        self._answer()
        if self.fences[bucket] > token:
            raise OwnershipLost(bucket, "a newer token was seen")
        for stat in stats:
            if stat in self.lists[bucket]:
                self.lists[bucket].remove(stat)
        self._lose_answer()

    def _answer(self) -> None:
        self._between()
        if self.is_away:
            raise StoreUnavailable("redis", "no answer")

    def _lose_answer(self) -> None:
        if self.forgets_answers:
            raise StoreUnavailable("redis", "its answer got lost")
