"""Heartbeats, fences and the number of buckets in Redis, for leases that are elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.bucket_total import check_total
from app.ports.presence import PresenceView
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow


class RedisPresence:
    """The `Presence` of one fleet.

    Args:
        names: all buckets, in order.
        duration_s: of a lease; a heartbeat counts for as long, by Redis' clock.
    """

    def __init__(
        self, connection: RedisConnection, keys: RedisKeys, names: Sequence[str], *, duration_s: float
    ) -> None:
        self._connection = connection
        self._names = tuple(BucketName(name) for name in names)
        self._duration_ms = round(duration_s * 1000)
        self._leases = RedisLeases(connection, keys, names, duration_s=duration_s)
        self._script = load_script("presence")
        self._fences = [keys.fence(name) for name in self._names]
        self._keys = [keys.epoch(), keys.heartbeats(), keys.total(), keys.drains()]
        self._keys += [key for name in self._names for key in (keys.lease(name), keys.fence(name))]

    def check_total(self, total: int) -> None:
        """See `Presence.check_total`."""
        self._leases.check_total(total)

    def stored_total(self) -> int | None:
        """See `Presence.stored_total`."""
        return self._leases.stored_total()

    def beat(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> PresenceView:
        """See `Presence.beat`."""
        tokens = [held.get(name, "") for name in self._names]
        answer = self._connection.run(self._script, self._keys, holder.agent_id, self._duration_ms, *tokens)
        if len(answer) == 1:
            check_total(len(self._names), _text(answer[0]))
        now, agents, draining, rows = answer
        named = list(zip(self._names, rows, strict=True))
        return PresenceView(
            live_agents=tuple(_texts(agents)),
            draining=frozenset(_texts(draining)),
            fences={name: max(int(row[0]), int(row[1])) for name, row in named},
            in_redis={name: _row(name, row) for name, row in named if row[2]},
            redis_ms=int(now),
        )

    def look(self) -> PresenceView:
        """See `Presence.look`."""
        view = self._leases.view()
        fences = self._connection.execute("MGET", *self._fences)
        return PresenceView(
            live_agents=view.live_agents,
            draining=view.draining,
            fences={
                name: int(fence) if fence is not None and fence.isdigit() else 0
                for name, fence in zip(self._names, fences, strict=True)
            },
            in_redis={name: row for name, row in view.leases.items() if row.holder is not None},
            redis_ms=view.redis_ms,
        )

    def leave(self, holder: Holder) -> None:
        """See `Presence.leave`."""
        self._leases.leave(holder)


def _row(name: BucketName, row: Sequence[bytes]) -> LeaseRow:
    _, token, agent, identity, remaining_ms, acquired_ms = row
    holder = Holder(_text(identity), _text(agent))
    return LeaseRow(name, holder, FencingToken(int(token)), int(remaining_ms), int(acquired_ms))


def _text(stored: bytes) -> str:
    return bytes(stored).decode(errors="backslashreplace")


def _texts(stored: Iterable[bytes]) -> Iterable[str]:
    return map(_text, stored)
