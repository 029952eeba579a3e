"""Whose turn it is to be polled, decided in one script for all buckets."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.cluster.ring import bucket_names
from app.ports.store import BucketName


class RedisTicks:
    """The `TickStore` and `TickReader` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._take_due = load_script("take_due")

    def take_due(self, total: int, period_s: float) -> Sequence[tuple[BucketName, int]]:
        """See `TickStore.take_due`."""
        names = bucket_names(total)
        due = self._connection.run(
            self._take_due, [self._keys.seq(name) for name in names], max(round(period_s * 1000), 1)
        )
        return [(BucketName(names[index]), int(seq)) for index, seq in due]

    def last_turns(self, total: int) -> Sequence[int | None]:
        """See `TickReader.last_turns`."""
        times = self._connection.execute_all(
            [("HGET", self._keys.seq(name), "ms") for name in bucket_names(total)]
        )
        return [None if ms is None else int(ms) for ms in times]
