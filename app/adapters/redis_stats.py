"""Stats that wait in Redis for the owner of their bucket."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.cluster.ring import parse_bucket_name
from app.errors import OwnershipLost, PeerRefused
from app.ports.store import BucketName, FencingToken

MAX_QUEUED = 10_000
"""Stats of one bucket that may wait; some 2 MB."""

RETENTION_S = 24 * 3600.0
"""How long the stats of a bucket that nobody owns are kept, from the last one on."""


class RedisStats:
    """The `StatQueue` of one fleet.

    Args:
        max_queued: stats of one bucket that may wait.
    """

    def __init__(self, connection: RedisConnection, keys: RedisKeys, *, max_queued: int = MAX_QUEUED) -> None:
        self._connection = connection
        self._keys = keys
        self._max_queued = max_queued
        self._put = load_script("put_stat")
        self._remove = load_script("remove_stats")

    def put(self, bucket: BucketName, stat: bytes) -> int:
        """See `StatQueue.put`."""
        keys, retention_ms = [self._keys.stats(bucket), self._keys.total()], round(RETENTION_S * 1000)
        _, total = parse_bucket_name(bucket) or (0, 0)
        length = int(self._connection.run(self._put, keys, stat, self._max_queued, retention_ms, total))
        if length < 0:
            raise PeerRefused(bucket, "the fleet has another number of buckets by now")
        if not length:
            raise PeerRefused(bucket, f"{self._max_queued} stats wait for its owner already")
        return length

    def read(self, bucket: BucketName, start: int, count: int) -> Sequence[bytes]:
        """See `StatQueue.read`."""
        found = self._connection.execute("LRANGE", self._keys.stats(bucket), start, start + count - 1)
        return [bytes(stat) for stat in found]

    def remove(self, bucket: BucketName, token: FencingToken, stats: Sequence[bytes]) -> None:
        """See `StatQueue.remove`."""
        keys = [self._keys.fence(bucket), self._keys.stats(bucket)]
        newer = self._connection.run(self._remove, keys, token, *stats)
        if newer:
            raise OwnershipLost(bucket, f"token {token} is older than {int(newer)}; no stat was removed")
