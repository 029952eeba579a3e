"""The registry of processes in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import StoreUnavailable
from app.ports.registry import AgentRecord
from app.ports.runtime import Clock


@dataclass
class _Entry:
    facts: bytes
    seen_ms: int
    until_ms: int
    number: int


class MemoryAgents:
    """An `AgentRegistry`; `calls` has all calls that write, those in `away` (from 1) fail."""

    def __init__(self, clock: Clock, away: Sequence[int] = ()) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._away = frozenset(away)
        self.calls: list[tuple[str, float]] = []

    def lose_everything(self) -> None:
        self._entries.clear()

    def register(self, agent_id: str, facts: bytes, ttl_s: float, *, number: int | None = None) -> int:
        self._called("register", ttl_s)
        self.expire()
        entry = self._entries.get(agent_id)
        if entry is None:
            highest = max((each.number for each in self._entries.values()), default=0)
            entry = _Entry(facts, 0, 0, number or max(highest, self._clock.wall_ms()) + 1)
        self._write(agent_id, entry, facts, ttl_s)
        return entry.number

    def heartbeat(self, agent_id: str, facts: bytes, ttl_s: float) -> bool:
        self._called("heartbeat", ttl_s)
        self.expire()
        entry = self._entries.get(agent_id)
        if entry is not None:
            self._write(agent_id, entry, facts, ttl_s)
        return entry is not None

    def get(self, agent_id: str) -> AgentRecord | None:
        return next((record for record in self.list() if record.agent_id == agent_id), None)

    def list(self) -> Sequence[AgentRecord]:
        now = self._clock.wall_ms()
        live = [(agent_id, entry) for agent_id, entry in self._entries.items() if entry.until_ms > now]
        return [
            AgentRecord(agent_id, entry.facts, max(now - entry.seen_ms, 0), entry.number)
            for agent_id, entry in sorted(live, key=lambda pair: (pair[1].number, pair[0]))
        ]

    def unregister(self, agent_id: str) -> bool:
        self._called("unregister", 0.0)
        return self._entries.pop(agent_id, None) is not None

    def expire(self) -> Sequence[str]:
        now = self._clock.wall_ms()
        for entry in self._entries.values():
            ahead = max(entry.seen_ms - now, 0)
            entry.seen_ms, entry.until_ms = entry.seen_ms - ahead, entry.until_ms - ahead
        over = [agent_id for agent_id, entry in self._entries.items() if entry.until_ms <= now]
        for agent_id in over:
            del self._entries[agent_id]
        return over

    def _write(self, agent_id: str, entry: _Entry, facts: bytes, ttl_s: float) -> None:
        now = self._clock.wall_ms()
        entry.facts, entry.seen_ms, entry.until_ms = facts, now, now + max(round(ttl_s * 1000), 1)
        self._entries[agent_id] = entry

    def _called(self, name: str, ttl_s: float) -> None:
        self.calls.append((name, ttl_s))
        if len(self.calls) in self._away:
            raise StoreUnavailable("redis", "no answer")
