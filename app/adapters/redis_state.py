"""Records and audit trails of VMs in Redis; every write carries its fencing token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.adapters.redis_connection import Argument, RedisConnection, load_script, pairs
from app.adapters.redis_keys import RedisKeys
from app.errors import OwnershipLost
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import VmKey

KEPT_EVENTS = 500
"""Entries of an audit trail, about; Redis trims by whole blocks of 100."""

RETENTION_S = 24 * 3600.0
"""How long the last record and the audit trail of a deleted VM are kept."""


class RedisState:
    """The `StateStore` of one fleet.

    Args:
        retention_s: how long a deleted VM can still be looked at.
    """

    def __init__(
        self, connection: RedisConnection, keys: RedisKeys, *, retention_s: float = RETENTION_S
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._retention_ms = max(round(retention_s * 1000), 1)
        self._commit = load_script("commit")
        self._raise_fence = load_script("raise_fence")

    def raise_fence(self, bucket: BucketName, token: FencingToken) -> None:
        """See `StateStore.raise_fence`; OwnershipLost if a newer token was seen."""
        newer = self._connection.run(self._raise_fence, [self._keys.fence(bucket)], token)
        _refuse(bucket, token, newer)

    def load(self, bucket: BucketName) -> Mapping[VmKey, bytes]:
        """See `StateStore.load`."""
        flat = self._connection.execute("HGETALL", self._keys.state(bucket))
        return {VmKey(key.decode(errors="backslashreplace")): record for key, record in pairs(flat)}

    def commit(self, bucket: BucketName, token: FencingToken, writes: Sequence[VmWrite]) -> None:
        """See `StateStore.commit`."""
        if not writes:
            return
        keys = [self._keys.fence(bucket), self._keys.state(bucket)]
        records: list[Argument] = []
        entries: list[Argument] = []
        deletions: list[Argument] = []
        for write in writes:
            if write.record is not None and not write.is_deleted:
                records += (write.key, write.record)
            if write.events or write.is_deleted:
                keys += (self._keys.events(bucket, write.key), self._keys.deleted(bucket, write.key))
            for entry in write.events:
                entries += (len(keys) - 1, len(keys), entry)
            if write.is_deleted:
                deletions += (len(keys) - 1, len(keys), write.key, write.record or b"")
        newer = self._connection.run(
            self._commit,
            keys,
            token,
            KEPT_EVENTS,
            self._retention_ms,
            len(records),
            *records,
            len(entries) // 3,
            *entries,
            len(deletions) // 4,
            *deletions,
        )
        _refuse(bucket, token, newer)

    def read(self, bucket: BucketName, key: VmKey) -> bytes | None:
        """See `StateStore.read`; a VM deleted within the retention time is found too."""
        record, deleted = self._connection.execute_all(
            [("HGET", self._keys.state(bucket), key), ("GET", self._keys.deleted(bucket, key))]
        )
        found = record if record is not None else deleted
        return None if found is None else bytes(found)

    def events(self, bucket: BucketName, key: VmKey, limit: int) -> Sequence[tuple[int, bytes]]:
        """See `StateStore.events`."""
        if limit <= 0:
            return []
        newest_first = self._connection.execute(
            "XREVRANGE", self._keys.events(bucket, key), "+", "-", "COUNT", limit
        )
        return [(int(entry_id.split(b"-")[0]), fields[1]) for entry_id, fields in reversed(newest_first)]


def _refuse(bucket: BucketName, token: FencingToken, newer: int) -> None:
    if newer:
        raise OwnershipLost(bucket, f"token {token} is older than {int(newer)}; nothing was written")
