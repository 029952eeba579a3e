"""Moves meters, and events that wait for sinks, to the buckets of another number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.errors import InvalidInput
from app.metering.stored import parse_id_field
from app.ports.store import BucketName
from app.ports.vm import VmKey

_FIELDS_AT_ONCE = 250


class BillingMoves:
    """What a change of the number of buckets does to billing; no worker is at work meanwhile."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._move = load_script("move_billing")

    def move(
        self, old: Sequence[BucketName], new: Sequence[BucketName], owner: Callable[[VmKey], BucketName]
    ) -> None:
        """Meters go with their VMs; an outbox goes whole behind that of another bucket.

        Each step may be done twice. Raises StoreUnavailable without an answer.
        """
        for index, bucket in enumerate(old):
            self._move_meters(bucket, owner)
            for sink in list(self._sinks(bucket)):
                outboxes = [self._keys.billing_outbox(name, sink) for name in (bucket, new[index % len(new)])]
                self._connection.run(self._move, outboxes)

    def _move_meters(self, bucket: BucketName, owner: Callable[[VmKey], BucketName]) -> None:
        fields: dict[BucketName, list[bytes]] = defaultdict(list)
        is_whole = True
        for field in self._connection.execute("HKEYS", self._keys.billing(bucket)):
            if not field.startswith(b"["):
                continue
            try:
                identity = parse_id_field(bytes(field).decode())
            except (InvalidInput, ValueError):
                is_whole = False
                continue
            fields[owner(VmKey(identity.key))].append(bytes(field))
        for target, found in fields.items():
            keys = [self._keys.billing(bucket), self._keys.billing(target)]
            for start in range(0, len(found), _FIELDS_AT_ONCE):
                self._connection.run(self._move, keys, *found[start : start + _FIELDS_AT_ONCE])
        if is_whole:
            # Counters of steps and deliveries are left.
            self._connection.execute("DEL", self._keys.billing(bucket))

    def _sinks(self, bucket: BucketName) -> Iterator[str]:
        prefix = self._keys.billing_outbox(bucket, "")
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
        cursor: Any = b"0"
        while True:
            cursor, found = self._connection.execute("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield from (bytes(key).decode()[len(prefix) :] for key in found)
            if int(cursor) == 0:
                return
