"""Ports of the stats that VMs push: the queue of each bucket in Redis, the bell, the journal for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.ports.store import BucketName, FencingToken


class StatQueue(Protocol):
    """The stats of each bucket that wait for its owner; they stay there until they have their fate."""

    def put(self, bucket: BucketName, stat: bytes) -> int:
        """Append one; how many wait then.

        Raises:
            PeerRefused: too many wait already, or the fleet has another number of buckets; nothing was put.
            StoreUnavailable: no answer; it may have been put.
        """
        ...

    def read(self, bucket: BucketName, start: int, count: int) -> Sequence[bytes]:
        """Up to `count` of them, oldest first, without the first `start`; nothing is taken away."""
        ...

    def remove(self, bucket: BucketName, token: FencingToken, stats: Sequence[bytes]) -> None:
        """Take these away, each once; what is gone already is fine, so that it may be said again.

        Raises:
            OwnershipLost: a newer token was seen; nothing was removed.
            StoreUnavailable: they may have been removed.
        """
        ...


class StatBell(Protocol):
    """Tells a bucket's owner, through the bucket's task queue, that stats wait."""

    def ring(self, bucket: BucketName) -> None:
        """Send the task; one that gets lost is made good by the owner's next tick.

        Raises:
            StoreUnavailable: the broker did not take it.
        """
        ...


class StatJournal(Protocol):
    """Where each step of each stat is noted, for tests that count them."""

    def write(self, **facts: object) -> None:
        """Append one line; never raises."""
        ...
