"""Draining a worker: it hands over all its buckets and takes none (`vmscaler drain`).

A drain is bound to one process (its agentID): a worker that is started again takes buckets again, also under
the same name, so that nobody has to remember to undo it after maintenance.
"""

from __future__ import annotations

from collections.abc import Callable

from app.errors import UsageError
from app.ports.drain import DrainNote, DrainStore
from app.ports.registry import AgentRegistry
from app.ports.runtime import Clock
from app.ports.store import LeaseReader
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow, read_agent
from app.services.instructing import Author

MAX_NAMED = 16
"""Workers that an error names."""

LOOK_EVERY_S = 0.25
"""Between two looks at the leases while waiting."""


class Draining:
    """Writes drains, and sees how far a worker has got."""

    def __init__(
        self,
        drains: DrainStore,
        leases: LeaseReader,
        agents: AgentRegistry,
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        self._drains = drains
        self._leases = leases
        self._agents = agents
        self._clock = clock
        self._sleep = sleep

    def find(self, name: str) -> AgentRow:
        """The live worker of that name, identity or agentID.

        Raises:
            UsageError: none, or several; the text lists the known ones.
        """
        rows = [row for row in map(read_agent, self._agents.list()) if row.kind == "worker"]
        found = [row for row in rows if name in (row.name, row.identity, row.agent_id)]
        if len(found) == 1:
            return found[0]
        if found:
            told = ", ".join(printable(row.agent_id, 80) for row in found[:MAX_NAMED])
            raise UsageError(f"several workers are called {printable(name, 80)}; give an agentID: {told}")
        known = ", ".join(printable(row.name, 80) for row in rows[:MAX_NAMED]) or "none"
        more = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
        raise UsageError(f"unknown worker {printable(name, 80)}; live workers: {known}{more}")

    def drain(self, worker: AgentRow, author: Author, *, is_forced: bool) -> int:
        """Let it hand over everything; the number of buckets that it holds now.

        Raises:
            UsageError: nobody else would take its buckets, and that is not forced.
        """
        self._leases.stored_total()  # refuses while the number of buckets is being changed
        others = [agent for agent in self._leases.view().takers if agent != worker.agent_id]
        if not others and not is_forced:
            raise UsageError(
                f"no other live worker takes buckets: with {printable(worker.name, 80)} drained nobody would "
                "own them, and no VM would be scaled; --force does it all the same"
            )
        note = DrainNote(author.name, author.reason, self._clock.wall_ms())
        self._drains.drain(worker.agent_id, note)
        return self.held(worker)

    def undo(self, worker: AgentRow) -> bool:
        """Let it take buckets again; whether it was drained."""
        return self._drains.undo(worker.agent_id)

    def held(self, worker: AgentRow) -> int:
        """How many buckets it holds now."""
        rows = self._leases.view().leases.values()
        return sum(row.holder is not None and row.holder.agent_id == worker.agent_id for row in rows)

    def wait(self, worker: AgentRow, timeout_s: float, told: Callable[[int], None]) -> int:
        """Wait until it holds nothing; `told` gets each new number; what it holds in the end."""
        deadline = self._clock.monotonic() + timeout_s
        last = held = self.held(worker)
        while held and self._clock.monotonic() < deadline:
            self._sleep(LOOK_EVERY_S)
            held = self.held(worker)
            if held != last:
                told(held)
            last = held
        return held
