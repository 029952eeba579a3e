"""Leases with fencing tokens in Redis (`spec/forwarder.md`, "Leases in Redis")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.adapters.redis_connection import RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.errors import ConfigurationError
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView

_FIELDS = ("token", "agent", "identity", "until_ms")


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
        if stored != b"%d" % total:
            in_force = bytes(stored).decode(errors="backslashreplace")[:20]
            raise ConfigurationError(
                [f".ownership.buckets: {total}, but this fleet has {in_force} in Redis; set it to that"]
            )

    def stored_total(self) -> int | None:
        """See `LeaseReader.stored_total`."""
        stored = self._connection.execute("GET", self._keys.total())
        return int(stored) if stored is not None and bytes(stored).isdigit() else None

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        """See `LeaseStore.round`."""
        keys = [self._keys.epoch(), self._keys.heartbeats(), *self._lease_and_fence(self._names)]
        asked = [renew.get(name, "") for name in self._names]
        now, agents, rows = self._connection.run(
            self._round, keys, holder.agent_id, holder.identity, self._duration_ms, *asked
        )
        named = list(zip(self._names, rows, strict=True))
        return LeaseView(
            leases={name: _row(name, row[1:]) for name, row in named},
            live_agents=tuple(bytes(agent).decode() for agent in agents),
            renewed=frozenset(name for name, row in named if row[0]),
            redis_ms=int(now),
        )

    def view(self) -> LeaseView:
        """See `LeaseReader.view`."""
        commands: list[tuple[str, ...]] = [
            ("TIME",),
            ("ZRANGE", self._keys.heartbeats(), "0", "-1", "WITHSCORES"),
        ]
        commands += [("HMGET", self._keys.lease(name), *_FIELDS) for name in self._names]
        time, scored, *rows = self._connection.execute_all(commands)
        now = now_ms(time)
        return LeaseView(
            leases={name: _stored_row(name, row, now) for name, row in zip(self._names, rows, strict=True)},
            live_agents=_live(scored, now - self._duration_ms),
            renewed=frozenset(),
            redis_ms=now,
        )

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        """See `LeaseStore.acquire`."""
        if not buckets:
            return {}
        keys = [self._keys.epoch(), *self._lease_and_fence(buckets)]
        tokens = self._connection.run(
            self._acquire, keys, holder.agent_id, holder.identity, self._duration_ms, seen
        )
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


def _row(bucket: BucketName, row: Sequence[Any]) -> LeaseRow:
    """From a round's row: token, agent, identity, remaining ms."""
    token, agent, identity, remaining_ms = row
    holder = Holder(bytes(identity).decode(), bytes(agent).decode()) if agent else None
    return LeaseRow(bucket, holder, FencingToken(int(token)), int(remaining_ms))


def _stored_row(bucket: BucketName, stored: Sequence[bytes | None], now: int) -> LeaseRow:
    """From the values of `_FIELDS`; what has expired counts as free."""
    token, agent, identity, until_ms = stored
    remaining_ms = max(int(until_ms or 0) - now, 0)
    if remaining_ms == 0:
        agent = None
    return _row(bucket, (token or 0, agent or b"", identity or b"", remaining_ms))


def _live(scored: Sequence[bytes], older_than_ms: int) -> tuple[str, ...]:
    return tuple(agent.decode() for agent, beat_ms in pairs(scored) if float(beat_ms) > older_than_ms)
