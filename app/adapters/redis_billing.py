"""Meters of VMs and events on their way to sinks, in Redis; every write carries its fencing token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.adapters.redis_connection import Argument, RedisConnection, load_script, pairs
from app.adapters.redis_keys import RedisKeys
from app.errors import OwnershipLost
from app.ports.billing import BillingStep, StoredMeters, Waiting
from app.ports.store import BucketName, FencingToken

STEP = b"step"
"""Field beside the meters, whose names all begin with a bracket: number of the last step."""

SENT = "sent:"
"""Begins the field that counts the events which have left a sink's outbox."""


class RedisBilling:
    """The `BillingStore` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._commit = load_script("billing_commit")
        self._sent = load_script("billing_sent")

    def load(self, bucket: BucketName, sinks: Sequence[str]) -> StoredMeters:
        """See `BillingStore.load`."""
        commands: list[Sequence[Argument]] = [("HGETALL", self._keys.billing(bucket))]
        commands += [("LLEN", self._keys.billing_outbox(bucket, sink)) for sink in sinks]
        flat, *lengths = self._connection.execute_all(commands)
        fields = dict(pairs(flat))
        meters = {
            name.decode(errors="replace"): value for name, value in fields.items() if name.startswith(b"[")
        }
        waiting = {sink: int(length) for sink, length in zip(sinks, lengths, strict=True)}
        return StoredMeters(int(fields.get(STEP, 0)), meters, waiting)

    def commit(
        self, bucket: BucketName, token: FencingToken, step: BillingStep, sinks: Sequence[str]
    ) -> Mapping[str, int] | None:
        """See `BillingStore.commit`."""
        keys = [self._keys.fence(bucket), self._keys.billing(bucket)]
        keys += [self._keys.billing_outbox(bucket, sink) for sink in sinks]
        meters = [part for pair in step.meters.items() for part in pair]
        arguments: list[Argument] = [token, step.number, len(meters), *meters, len(step.gone), *step.gone]
        for sink in sinks:
            events = step.events.get(sink, ())
            arguments += (len(events), *events)
        newer, *lengths = self._connection.run(self._commit, keys, *arguments)
        if newer == b"lost":
            return None
        _refuse(bucket, token, newer)
        return {sink: int(length) for sink, length in zip(sinks, lengths, strict=True)}

    def length(self, bucket: BucketName, sink: str) -> tuple[int, int]:
        """See `BillingStore.length`."""
        sent, length = self._connection.execute_all(
            [
                ("HGET", self._keys.billing(bucket), SENT + sink),
                ("LLEN", self._keys.billing_outbox(bucket, sink)),
            ]
        )
        return int(sent or 0), int(length)

    def waiting(self, bucket: BucketName, sink: str, limit: int) -> Waiting:
        """See `BillingStore.waiting`."""
        sent, events = self._connection.execute_all(
            [
                ("HGET", self._keys.billing(bucket), SENT + sink),
                ("LRANGE", self._keys.billing_outbox(bucket, sink), 0, limit - 1),
            ]
        )
        return Waiting(int(sent or 0), tuple(bytes(event) for event in events))

    def remove(self, bucket: BucketName, token: FencingToken, sink: str, *, sent: int, count: int) -> None:
        """See `BillingStore.remove`."""
        keys = [
            self._keys.fence(bucket),
            self._keys.billing(bucket),
            self._keys.billing_outbox(bucket, sink),
        ]
        newer = self._connection.run(self._sent, keys, token, SENT + sink, sent, count)
        _refuse(bucket, token, newer)


def _refuse(bucket: BucketName, token: FencingToken, newer: bytes) -> None:
    if int(newer):
        raise OwnershipLost(bucket, f"token {token} is older than {int(newer)}; nothing was written")
