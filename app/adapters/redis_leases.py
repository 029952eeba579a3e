"""Leases with fencing tokens in Redis (`spec/forwarder.md`, "Leases in Redis")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.adapters.redis_connection import RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.cluster.bucket_total import check_total, read_total
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView

_FIELDS = ("token", "agent", "identity", "until_ms", "acquired_ms")


class RedisLeases:
    """The `LeaseStore` and `LeaseReader` of one fleet.

    Args:
        names: all buckets, in order.
        duration_s: how long a lease lives without renewal, by Redis' clock.
    """

    def __init__(
        self, connection: RedisConnection, keys: RedisKeys, names: Sequence[str], *, duration_s: float
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._names = tuple(BucketName(name) for name in names)
        self._duration_ms = round(duration_s * 1000)
        self._round = load_script("lease_round")
        self._acquire = load_script("lease_acquire")
        self._release = load_script("lease_release")

    def check_total(self, total: int) -> None:
        """See `LeaseStore.check_total`."""
        key = self._keys.total()
        _, stored = self._connection.execute_all([("SETNX", key, total), ("GET", key)])
        check_total(total, _text(stored))

    def stored_total(self) -> int | None:
        """See `LeaseReader.stored_total`."""
        stored = self._connection.execute("GET", self._keys.total())
        return None if stored is None else read_total(_text(stored))

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        """See `LeaseStore.round`."""
        keys = [self._keys.epoch(), self._keys.heartbeats(), self._keys.total(), self._keys.drains()]
        keys += self._lease_and_fence(self._names)
        asked = [renew.get(name, "") for name in self._names]
        answer = self._connection.run(
            self._round, keys, holder.agent_id, holder.identity, self._duration_ms, *asked
        )
        if len(answer) == 1:
            check_total(len(self._names), _text(answer[0]))
        now, agents, rows, draining, silence_ms = answer
        named = list(zip(self._names, rows, strict=True))
        return LeaseView(
            leases={name: _row(name, row[1:]) for name, row in named},
            live_agents=tuple(_texts(agents)),
            renewed=frozenset(name for name, row in named if row[0]),
            redis_ms=int(now),
            draining=frozenset(_texts(draining)),
            silence_ms=int(silence_ms),
        )

    def view(self) -> LeaseView:
        """See `LeaseReader.view`."""
        commands: list[tuple[str, ...]] = [
            ("TIME",),
            ("INFO", "server"),
            ("INFO", "replication"),
            ("HMGET", self._keys.epoch(), "run", "since_ms", "replid"),
            ("ZRANGE", self._keys.heartbeats(), "0", "-1", "WITHSCORES"),
            ("HKEYS", self._keys.drains()),
        ]
        commands += [("HMGET", self._keys.lease(name), *_FIELDS) for name in self._names]
        time, server, replication, epoch, scored, draining, *rows = self._connection.execute_all(commands)
        now = now_ms(time)
        return LeaseView(
            leases={name: _stored_row(name, row, now) for name, row in zip(self._names, rows, strict=True)},
            live_agents=_live(scored, now - self._duration_ms),
            renewed=frozenset(),
            redis_ms=now,
            draining=frozenset(_texts(draining)),
            silence_ms=self._silence_ms(server + replication, epoch, now),
            is_read_only=b"role:slave" in replication,
        )

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        """See `LeaseStore.acquire`."""
        if not buckets:
            return {}
        keys = [self._keys.epoch(), self._keys.total(), *self._lease_and_fence(buckets)]
        who = holder.agent_id, holder.identity
        tokens = self._connection.run(self._acquire, keys, *who, self._duration_ms, seen, len(self._names))
        taken = zip(buckets, tokens, strict=True)
        return {bucket: FencingToken(int(token)) for bucket, token in taken if token}

    def release(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> None:
        """See `LeaseStore.release`."""
        if held:
            keys = [self._keys.lease(bucket) for bucket in held]
            self._connection.run(self._release, keys, holder.agent_id, *held.values())

    def leave(self, holder: Holder) -> None:
        """See `LeaseStore.leave`."""
        self._connection.execute("ZREM", self._keys.heartbeats(), holder.agent_id)

    def _lease_and_fence(self, buckets: Sequence[BucketName]) -> list[str]:
        return [key for bucket in buckets for key in (self._keys.lease(bucket), self._keys.fence(bucket))]

    def _silence_ms(self, info: bytes, epoch: Sequence[bytes | None], now: int) -> int:
        """How long nobody acquires; a whole duration where no worker has noted the epoch yet."""
        run, since_ms, history = epoch
        if run is None or since_ms is None or b"run_id:" + run not in info or int(since_ms) > now:
            return self._duration_ms
        if history is not None and b"master_replid:" + history not in info:
            return self._duration_ms
        return max(int(since_ms) + self._duration_ms - now, 0)


def _text(stored: bytes) -> str:
    return bytes(stored).decode(errors="backslashreplace")


def _texts(stored: Iterable[bytes]) -> Iterable[str]:
    return map(_text, stored)


def _row(bucket: BucketName, row: Sequence[Any]) -> LeaseRow:
    """From a round's row: token, agent, identity, remaining ms, acquired ms."""
    token, agent, identity, remaining_ms, acquired_ms = row
    holder = Holder(_text(identity), _text(agent)) if agent else None
    return LeaseRow(bucket, holder, FencingToken(int(token)), int(remaining_ms), int(acquired_ms))


def _stored_row(bucket: BucketName, stored: Sequence[bytes | None], now: int) -> LeaseRow:
    """From the values of `_FIELDS`; what has expired counts as free."""
    token, agent, identity, until_ms, acquired_ms = stored
    remaining_ms = max(_number(until_ms) - now, 0)
    if remaining_ms == 0:
        agent = acquired_ms = None
    return _row(bucket, (_number(token), agent or b"", identity or b"", remaining_ms, _number(acquired_ms)))


def _number(stored: bytes | None) -> int:
    """As the scripts read it: 0 for what is missing, and for what is no number."""
    return int(stored) if stored is not None and stored.isdigit() else 0


def _live(scored: Sequence[bytes], older_than_ms: int) -> tuple[str, ...]:
    return tuple(_text(agent) for agent, beat_ms in pairs(scored) if float(beat_ms) > older_than_ms)
