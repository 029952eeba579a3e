"""Enters a worker's agents in the fleet's directory, for operators: which worker is an agent of which VM.

A round every few seconds, away from all that scales VMs: a Redis that is away costs nothing but the listing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import StoreUnavailable
from app.ports.runtime import Signal
from app.protocols.agent_store import AgentStore, StoredAgent

logger = logging.getLogger(__name__)

ROUND_EVERY_S = 2.0
ENTRY_LIVES_S = 15.0
"""Without a round; a worker that was killed is out of the listing after it."""


class InformantDirectory:
    """Keeps the store equal to the registrations in force.

    Args:
        registered: the agents that are registered with an informant now, by id, in that order.
    """

    def __init__(self, store: AgentStore, registered: Callable[[], Mapping[str, StoredAgent]]) -> None:
        self._store = store
        self._registered = registered
        self._entered: dict[str, StoredAgent] = {}
        self._problem = ""

    def run(self, stop: Signal) -> None:
        """A round now and then, until stopped."""
        while not stop.wait(ROUND_EVERY_S):
            self.refresh(self._registered())

    def end(self) -> None:
        """Take all entries away; what that fails for, ends by itself."""
        self.refresh({})

    def refresh(self, now: Mapping[str, StoredAgent]) -> None:
        """One round; a Redis that gives no answer ends it, and the next goes on from there."""
        try:
            self._refresh(now)
        except StoreUnavailable as err:
            if not self._problem:
                logger.warning("agents not listed", extra={"reason": err.problem})
            self._problem = err.problem
        else:
            self._problem = ""

    def _refresh(self, now: Mapping[str, StoredAgent]) -> None:
        for agent_id in [agent_id for agent_id in self._entered if agent_id not in now]:
            self._store.unregister(agent_id)
            del self._entered[agent_id]
        known = {agent_id: agent.number for agent_id, agent in now.items() if agent_id in self._entered}
        for agent_id in self._store.heartbeat(known):
            self._enter(replace(now[agent_id], order=self._entered[agent_id].order))
        for agent_id, agent in now.items():
            if agent_id not in self._entered:
                self._enter(agent)

    def _enter(self, agent: StoredAgent) -> None:
        """Enter it, in its old place where it had one."""
        self._store.register(agent)
        order = self._store.confirm(agent.desc.agent_id)
        if order is not None:
            self._entered[agent.desc.agent_id] = replace(agent, order=order)
