"""Where a set of agents is kept: the table behind `app.protocols.informant_set` (`spec/informant.md`).

Two stores do the same: `MemoryAgentStore` inside a VM, and the one in Redis, where workers enter the agents
that they are towards informants. Every call is one atomic step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from app.protocols.informant import AgentDesc

MAX_NAME_CHARACTERS = 600
"""Of what an agent is called; longer ones are cut."""


class Entry(Enum):
    """What came of a registration."""

    ENTERED = "entered"
    THERE = "there already"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """One agent.

    Attributes:
        name: for people; who it is and for what.
        order: its place in the order of registration; 0 while it is still being checked.
        number: the highest sequence number that was seen of it; 0: none.
        age_ms: since its registration, or its last heartbeat.
    """

    desc: AgentDesc
    name: str = ""
    order: int = 0
    number: int = 0
    age_ms: int = 0


class AgentStore(Protocol):
    """Agents by id, those still being checked included, and in the order of their registration."""

    def register(self, agent: StoredAgent) -> Entry:
        """Enter an agent that is to be checked, unless its id is there or there are too many.

        One that the store has lost is entered again with its order and number, and counts as confirmed.
        """
        ...

    def confirm(self, agent_id: str) -> int | None:
        """Its check has succeeded: its place, behind all others; None where it is not there.

        A second time changes nothing.
        """
        ...

    def note(self, agent_id: str, number: int) -> int | None:
        """A sequence number was seen: the highest before it; None where there is no such agent.

        It is a heartbeat, too.
        """
        ...

    def get(self, agent_id: str) -> StoredAgent | None:
        """By id."""
        ...

    def list(self) -> Sequence[StoredAgent]:
        """All agents whose check has succeeded, in that order."""
        ...

    def heartbeat(self, numbers: Mapping[str, int]) -> Sequence[str]:
        """Keep agents alive, and take note of their highest sequence numbers; those that are not there."""
        ...

    def unregister(self, agent_id: str) -> bool:
        """Take one away; whether it was there."""
        ...

    def expire(self) -> Sequence[str]:
        """Take those away whose last heartbeat is too long ago; who they were. Registrations do it too."""
        ...


class MemoryAgentStore:
    """An `AgentStore` in memory.

    Args:
        limit: at most so many agents.
        ttl_s: until an agent without a heartbeat is gone; infinite: it stays.
        now_ms: a clock; what it counts from does not matter.
    """

    def __init__(
        self, *, limit: int = 256, ttl_s: float = math.inf, now_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self._limit = limit
        self._ttl_ms = ttl_s * 1000
        self._now_ms = now_ms
        self._agents: dict[str, StoredAgent] = {}
        self._seen: dict[str, int] = {}
        self._highest = 0

    def register(self, agent: StoredAgent) -> Entry:
        """See `AgentStore.register`."""
        self.expire()
        agent_id = agent.desc.agent_id
        if agent_id in self._agents:
            return Entry.THERE
        if len(self._agents) >= self._limit:
            return Entry.FULL
        self._agents[agent_id] = replace(agent, name=agent.name[:MAX_NAME_CHARACTERS])
        self._seen[agent_id] = self._now_ms()
        self._highest = max(self._highest, agent.order)
        return Entry.ENTERED

    def confirm(self, agent_id: str) -> int | None:
        """See `AgentStore.confirm`."""
        agent = self._live(agent_id)
        if agent is None:
            return None
        if agent.order == 0:
            self._highest += 1
            agent = self._agents[agent_id] = replace(agent, order=self._highest)
        return agent.order

    def note(self, agent_id: str, number: int) -> int | None:
        """See `AgentStore.note`."""
        agent = self._live(agent_id)
        if agent is None:
            return None
        self._agents[agent_id] = replace(agent, number=max(agent.number, number))
        self._seen[agent_id] = self._now_ms()
        return agent.number

    def get(self, agent_id: str) -> StoredAgent | None:
        """See `AgentStore.get`."""
        return self._live(agent_id)

    def list(self) -> Sequence[StoredAgent]:
        """See `AgentStore.list`."""
        live = (self._live(agent_id) for agent_id in self._agents)
        return sorted((agent for agent in live if agent and agent.order), key=lambda agent: agent.order)

    def heartbeat(self, numbers: Mapping[str, int]) -> Sequence[str]:
        """See `AgentStore.heartbeat`."""
        return sorted(agent_id for agent_id, number in numbers.items() if self.note(agent_id, number) is None)

    def unregister(self, agent_id: str) -> bool:
        """See `AgentStore.unregister`."""
        was_there = self._live(agent_id) is not None
        self._agents.pop(agent_id, None)
        self._seen.pop(agent_id, None)
        return was_there

    def expire(self) -> Sequence[str]:
        """See `AgentStore.expire`."""
        over = sorted(agent_id for agent_id in self._agents if self._live(agent_id) is None)
        for agent_id in over:
            del self._agents[agent_id], self._seen[agent_id]
        return over

    def _live(self, agent_id: str) -> StoredAgent | None:
        agent = self._agents.get(agent_id)
        if agent is None:
            return None
        now = self._now_ms()
        # A clock that went back leaves times in the future: they count from now on.
        self._seen[agent_id] = min(self._seen[agent_id], now)
        age_ms = now - self._seen[agent_id]
        return None if age_ms >= self._ttl_ms else replace(agent, age_ms=age_ms)
