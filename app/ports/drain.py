"""Operators' word that a worker is to hand over everything and take nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DrainNote:
    """Who drains a worker, and why; all text is untrusted when it is read back."""

    author: str
    reason: str
    at_ms: int


class DrainStore(Protocol):
    """Drains by agent id: bound to one process, not to its name, so that a restart ends it.

    Every call raises `StoreUnavailable` when Redis gives no answer within its time limit. Workers see the
    drains in each round of their leases (`LeaseView.draining`).
    """

    def drain(self, agent_id: str, note: DrainNote) -> None:
        """Let the agent hand over everything and take nothing, until it is undone or ends."""
        ...

    def undo(self, agent_id: str) -> bool:
        """Take it back; whether there was one."""
        ...

    def drains(self) -> Mapping[str, DrainNote]:
        """All that stand; those of agents that have ended are forgotten after a day."""
        ...
