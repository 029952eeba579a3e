"""A process tells the registry about itself, so that others find it and an operator sees it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

from app.errors import StoreUnavailable
from app.ports.registry import AgentRegistry
from app.ports.runtime import Signal

logger = logging.getLogger(__name__)

ANNOUNCE_EVERY_S = 2.0
"""How often the entry is refreshed."""

LOOK_EVERY_S = 0.2
"""How often it is tried while there is nothing to say yet."""

ANNOUNCED_FOR_S = 10.0
"""How long the registry believes it: some failed refreshes, and Redis away for a moment, are survived."""


class Announcement:
    """One process' entry in the registry.

    Args:
        agent_id: the entry's key; new at each start.
        facts: called for each refresh: what to publish, as JSON values; None while it is too early.
    """

    def __init__(
        self, registry: AgentRegistry, agent_id: str, facts: Callable[[], Mapping[str, object] | None]
    ) -> None:
        self._registry = registry
        self._agent_id = agent_id
        self._facts = facts
        self._problem = ""
        self._number: int | None = None

    def run(self, stop: Signal) -> None:
        """Refresh until stopped, then take the entry away."""
        while not stop.is_set():
            is_said = self.refresh()
            stop.wait(ANNOUNCE_EVERY_S if is_said else LOOK_EVERY_S)
        self.end()

    def end(self) -> None:
        """Take the entry away."""
        try:
            self._registry.unregister(self._agent_id)
        except StoreUnavailable as err:
            logger.debug("registry not told of the end", extra={"reason": str(err)})

    def refresh(self) -> bool:
        """Publish once; a registry that is away is tried again at the next turn. Whether there was a word."""
        facts = self._facts()
        if facts is None:
            return False
        try:
            self._publish(json.dumps(facts).encode())
        except StoreUnavailable as err:
            self._say(str(err))
        else:
            self._say("")
        return True

    def _publish(self, facts: bytes) -> None:
        """A heartbeat; where Redis has lost the entry it is made anew, in its old place of the order."""
        if self._number is not None and self._registry.heartbeat(self._agent_id, facts, ANNOUNCED_FOR_S):
            return
        self._number = self._registry.register(self._agent_id, facts, ANNOUNCED_FOR_S, number=self._number)

    def _say(self, problem: str) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            logger.warning("registry not told", extra={"reason": problem[:200]})
        else:
            logger.info("registry told again")
