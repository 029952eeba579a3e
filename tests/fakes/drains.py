"""Drains in memory, seen by the rounds of a `MemoryLeases`."""

from __future__ import annotations

from collections.abc import Mapping

from app.ports.drain import DrainNote
from tests.fakes.leases import MemoryLeases

_DAY_MS = 24 * 3600 * 1000


class MemoryDrains:
    """A `DrainStore`."""

    def __init__(self, leases: MemoryLeases) -> None:
        self._leases = leases
        self._notes: dict[str, DrainNote] = {}

    def drain(self, agent_id: str, note: DrainNote) -> None:
        view = self._leases.view()
        for other, old in list(self._notes.items()):
            if view.redis_ms - old.at_ms > _DAY_MS and other not in view.live_agents:
                self.undo(other)
        self._notes[agent_id] = note
        self._leases.draining.add(agent_id)

    def undo(self, agent_id: str) -> bool:
        self._leases.draining.discard(agent_id)
        return self._notes.pop(agent_id, None) is not None

    def drains(self) -> Mapping[str, DrainNote]:
        return dict(self._notes)
