"""A `Presence` in memory; the clock's wall time stands for Redis' clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.cluster.bucket_total import check_total, read_total
from app.errors import StoreUnavailable
from app.ports.presence import PresenceView
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow


class MemoryPresence:
    """What Redis keeps when leases are elsewhere.

    Attributes:
        in_redis: leases of workers that have theirs in Redis.
    """

    def __init__(
        self,
        clock: Clock,
        names: Sequence[str],
        *,
        duration_s: float,
        fences: dict[BucketName, int] | None = None,
    ) -> None:
        self._clock = clock
        self._names = tuple(BucketName(name) for name in names)
        self._duration_ms = round(duration_s * 1000)
        self.fences: dict[BucketName, int] = {} if fences is None else fences
        self.heartbeats: dict[str, int] = {}
        self.draining: set[str] = set()
        self.in_redis: dict[BucketName, LeaseRow] = {}
        self.total: str | None = None
        self.is_away = False

    def lose_everything(self) -> None:
        """Redis has been emptied."""
        self.fences.clear()
        self.heartbeats.clear()
        self.draining.clear()
        self.total = None

    def check_total(self, total: int) -> None:
        self._ask()
        self.total = self.total or str(total)
        check_total(total, self.total)

    def stored_total(self) -> int | None:
        self._ask()
        return None if self.total is None else read_total(self.total)

    def beat(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> PresenceView:
        self._ask()
        self.total = self.total or str(len(self._names))
        check_total(len(self._names), self.total)
        now = self._clock.wall_ms()
        self.heartbeats = {agent: min(beat, now) for agent, beat in self.heartbeats.items()}
        self.heartbeats[holder.agent_id] = now
        for bucket, token in held.items():
            self.fences[bucket] = max(self.fences.get(bucket, 0), token)
        return self._view(now)

    def look(self) -> PresenceView:
        self._ask()
        return self._view(self._clock.wall_ms())

    def leave(self, holder: Holder) -> None:
        self._ask()
        self.heartbeats.pop(holder.agent_id, None)

    def _ask(self) -> None:
        if self.is_away:
            raise StoreUnavailable("redis", "is away")

    def _view(self, now: int) -> PresenceView:
        live = (agent for agent, beat in self.heartbeats.items() if beat > now - self._duration_ms)
        return PresenceView(
            live_agents=tuple(sorted(live)),
            draining=frozenset(self.draining),
            fences={name: self.fences.get(name, 0) for name in self._names},
            in_redis=dict(self.in_redis),
            redis_ms=now,
        )
