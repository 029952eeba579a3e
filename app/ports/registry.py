"""The registry of agents: processes that tell each other and the operator about themselves.

Source of the rules: `spec/informant.md`, "The agent registry in Redis". Every call raises
`StoreUnavailable` when Redis gives no answer within its time limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """A process in the registry.

    Attributes:
        facts: JSON bytes with name, address, start time, versions, counters.
        age_ms: since its last heartbeat.
        number: its place in the order of registration; 0 for one that an older version has written.
        seen_ms: when that heartbeat came, by Redis' clock; None: not told.
    """

    agent_id: str
    facts: bytes
    age_ms: int
    number: int = 0
    seen_ms: int | None = None


class AgentRegistry(Protocol):
    """Facts that workers and other processes publish about themselves; each call is one atomic step."""

    def register(self, agent_id: str, facts: bytes, ttl_s: float, *, number: int | None = None) -> int:
        """Enter an agent, gone by itself `ttl_s` after its last heartbeat; its number.

        Numbers grow, also past those that Redis has lost. One that is registered keeps its number.

        Args:
            number: what an earlier registration gave, for one that Redis has lost meanwhile.
        """
        ...

    def heartbeat(self, agent_id: str, facts: bytes, ttl_s: float) -> bool:
        """Refresh the entry; False, and nothing is written, where there is none: register again."""
        ...

    def get(self, agent_id: str) -> AgentRecord | None:
        """One live agent."""
        ...

    def list(self) -> Sequence[AgentRecord]:
        """All live ones, in the order of their registration."""
        ...

    def unregister(self, agent_id: str) -> bool:
        """Take it away at a clean end; whether it was there."""
        ...

    def expire(self) -> Sequence[str]:
        """Take away those whose time is over; who they were. Every registration does it too."""
        ...
