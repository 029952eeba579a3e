"""The registry of processes in memory."""

from __future__ import annotations

from collections.abc import Sequence

from app.ports.runtime import Clock
from app.ports.store import AgentRecord


class MemoryAgents:
    """An `AgentRegistry`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._published: dict[str, tuple[int, int, bytes]] = {}

    def publish(self, agent_id: str, facts: bytes, ttl_s: float) -> None:
        now = self._clock.wall_ms()
        self._published[agent_id] = (now, now + max(round(ttl_s * 1000), 1), facts)

    def list(self) -> Sequence[AgentRecord]:
        now = self._clock.wall_ms()
        return [
            AgentRecord(agent_id, facts, max(now - seen_ms, 0))
            for agent_id, (seen_ms, until_ms, facts) in sorted(self._published.items())
            if until_ms > now
        ]

    def withdraw(self, agent_id: str) -> None:
        self._published.pop(agent_id, None)
