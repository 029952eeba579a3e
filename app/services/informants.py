"""The agents of all VMs that a worker owns, towards their informants: begun, kept, let go.

No job per VM: one job keeps the times, requests to informants are made by jobs of their own, at most
`AT_ONCE` of them, so that silent informants hold up nobody but themselves.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

from app.ports.runtime import Signal
from app.protocols.agent_store import AgentStore, StoredAgent
from app.services.informant_directory import InformantDirectory
from app.services.informant_link import InformantLink, InformantPeers, InformantSettings
from app.services.runner import Runner
from app.services.timers import Timers

logger = logging.getLogger(__name__)

AT_ONCE = 1_024
"""Requests to informants at the same time; a VM more than that waits for one of them to end."""

LASTING_S = 10.0
"""Without leave for so long a VM is worth an operator's look; a change-over is shorter."""


class Informants:
    """One agent for each VM that is to have one.

    Args:
        ports: the configured range, for the message that it is used up.
        store: where the fleet's agents are listed.
    """

    def __init__(
        self, peers: InformantPeers, settings: InformantSettings, ports: str, store: AgentStore
    ) -> None:
        self._peers = peers
        self._directory = InformantDirectory(store, self._registered)
        self._settings = settings
        self._ports = ports
        self._changed: Callable[[Runner], None] = lambda runner: None
        self._links: dict[str, InformantLink] = {}
        self._timers = Timers(peers.clock, peers.concurrency, self._fired)
        self._ready: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle = peers.concurrency.signal()
        self._without: set[str] = set()

    def connect(self, changed: Callable[[Runner], None]) -> None:
        """Name who is told of a runner whose leave has changed; called once, before anything runs."""
        self._changed = changed

    # --- VMs ----------------------------------------------------------------------------------------------

    def adjust(self, runner: Runner) -> None:
        """Register for the VM, or let it go; called whenever what decides that may have changed."""
        link, informant = self._of(runner), runner.vm.informant
        if link is not None and (not _wants_link(runner) or link.informant != informant):
            self.leave(runner)
            link = None
        if link is None and informant is not None and _wants_link(runner):
            link = InformantLink(
                runner, informant, self._peers, self._settings, self._changed, self._set_timer
            )
            self._links[runner.key] = link
            runner.informant = link
            self._set_timer(link)

    def leave(self, runner: Runner) -> None:
        """Let the runner's VM go, if it is registered: the informant is told by a job, nobody waits."""
        link = self._of(runner)
        if link is None:
            return
        del self._links[runner.key]
        self._without.discard(runner.key)
        self._timers.cancel(runner.key)
        runner.informant = None
        body = link.let_go()
        if body is not None:
            self._begin(partial(link.unregister, body))

    def _of(self, runner: Runner) -> InformantLink | None:
        link = self._links.get(runner.key)
        return link if link is not None and link.runner is runner else None

    # --- life ---------------------------------------------------------------------------------------------

    def run(self, stop: Signal) -> None:
        """Keep registrations alive until stopped."""
        directory = self._peers.concurrency.spawn("agents' directory", partial(self._directory.run, stop))
        try:
            self._timers.run(stop)
        finally:
            directory.cancel()

    def finish(self, timeout_s: float) -> None:
        """Let all VMs go and wait for informants to be told; the others find out at their next check."""
        for link in list(self._links.values()):
            self.leave(link.runner)
        deadline = self._peers.clock.monotonic() + timeout_s
        while self._running or self._ready:
            self._idle.clear()
            rest_s = deadline - self._peers.clock.monotonic()
            if rest_s <= 0 or not self._idle.wait(rest_s):
                logger.warning("informants not told", extra={"vms": self._running + len(self._ready)})
                self._ready.clear()
                break
        self._peers.client.close()
        self._directory.end()

    # --- showing ------------------------------------------------------------------------------------------

    @property
    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        texts = [self._used_up] if self._used_up else []
        now = self._peers.clock.monotonic()
        barred = [
            (link.runner.key, bar)
            for link in self._links.values()
            if (bar := link.bar) is not None and now - link.since >= LASTING_S
        ]
        if barred:
            key, bar = min(barred)
            what = "VMs are not scaled, since we are not their informants' current agent"
            texts.append(f"{len(barred)} {what}: {key}: {bar}")
        return texts

    @property
    def _used_up(self) -> str:
        """That there are too few ports; empty: there are enough."""
        what = f"informant.ports {self._ports} are used up; VMs that go on without their informant"
        return f"{what}: {len(self._without)}" if self._without else ""

    @property
    def counts(self) -> dict[str, int]:
        """VMs with an agent, and those that may be changed by us now."""
        links = self._links.values()
        return {"informant_agents": len(links), "informant_active": sum(link.bar is None for link in links)}

    def _registered(self) -> dict[str, StoredAgent]:
        agents = (link.registration for link in self._links.values())
        return {agent.desc.agent_id: agent for agent in agents if agent is not None}

    # --- jobs ---------------------------------------------------------------------------------------------

    def _set_timer(self, link: InformantLink) -> None:
        in_s = link.due_in_s()
        if in_s is not None and self._links.get(link.runner.key) is link:
            self._timers.set(link.runner.key, in_s)

    def _fired(self, key: Hashable) -> None:
        link = self._links.get(str(key))
        if link is not None and link.due_in_s() is not None:
            self._begin(partial(self._attempt, link))

    def _attempt(self, link: InformantLink) -> None:
        try:
            link.attempt()
        finally:
            self._set_timer(link)
        if link.is_without and self._of(link.runner) is link:
            if not self._without:
                logger.warning("no port is free for an agent", extra={"ports": self._ports})
            self._without.add(link.runner.key)
        else:
            self._without.discard(link.runner.key)

    def _begin(self, what: Callable[[], None]) -> None:
        self._ready.append(what)
        if self._running < AT_ONCE:
            self._running += 1
            self._peers.concurrency.spawn("informant", self._work)

    def _work(self) -> None:
        """Make requests until none waits."""
        try:
            while self._ready:
                what = self._ready.popleft()
                try:
                    what()
                except Exception:
                    logger.exception("request to an informant failed")
        finally:
            self._running -= 1
            self._idle.set()


def _wants_link(runner: Runner) -> bool:
    return runner.is_ready and runner.has_intents and not runner.is_observed and not runner.is_closed
