"""One VM's agent at its informant: registered while the VM is ours, heard, and asked before each effect.

The rules are `app.protocols.informant_agent`'s (`spec/informant.md`); this carries them out. Nothing here
waits but `attempt`, `unregister`, and a `/suspend` while an effect is in flight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import PeerError
from app.ports.informants import AgentAnswer, AgentServer, AgentServers, InformantClient
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.vm import Address
from app.protocols.agent_store import StoredAgent
from app.protocols.informant_agent import AgentTimes, InformantAgent, Reply, Standing
from app.protocols.printable import printable
from app.services.runner import Runner

logger = logging.getLogger(__name__)

SUSPENDED = "suspended by the informant"
"""Why nothing is begun for a VM whose informant has made another agent the current one."""

MIGRATION_LOOK_S = 1.0
"""How often a VM that migrates is looked at: nothing is asked of anyone until it is there."""


@dataclass(frozen=True, slots=True)
class InformantSettings:
    """How all agents of a worker behave; times in seconds.

    Attributes:
        request_s: limit of a request to an informant; it checks our id meanwhile.
        suspend_wait_s: how long a `/suspend` is kept waiting for the effect in flight, at most.
        suspend_limit_s: an answer that took longer may have been too late; half of the informant's limit,
            which began to count before we were asked.
        no_port_s: until a VM that goes on without its informant looks for a free port again.
    """

    times: AgentTimes = field(default_factory=AgentTimes)
    request_s: float = 2.0
    suspend_wait_s: float = 15.0
    suspend_limit_s: float = 0.1
    no_port_s: float = 30.0


@dataclass(frozen=True, slots=True)
class InformantPeers:
    """What links need from outside.

    Attributes:
        new_id: a uuid, each time another one.
        jitter: between 0 and 1.
    """

    client: InformantClient
    servers: AgentServers
    clock: Clock
    concurrency: Concurrency
    new_id: Callable[[], str]
    jitter: Callable[[], float]


class InformantLink:
    """The agent of one pair of worker and VM.

    Args:
        informant: where the VM's informant is.
        changed: called when what may be begun has changed.
        wake: called when `due_in_s` has become shorter by itself.

    Attributes:
        since: when `bar` changed last.
        is_without: no port was free: the VM goes on without its informant.
    """

    def __init__(
        self,
        runner: Runner,
        informant: Address,
        peers: InformantPeers,
        settings: InformantSettings,
        changed: Callable[[Runner], None],
        wake: Callable[[InformantLink], None],
    ) -> None:
        self.runner = runner
        self.informant = informant
        self._peers = peers
        self._settings = settings
        self._changed = changed
        self._wake = wake
        self._agent = InformantAgent(peers.new_id(), "", peers.clock.monotonic(), settings.times)
        self._server: AgentServer | None = None
        self._ticket = 0
        self._waiting: dict[int, Signal] = {}
        self._replies: dict[int, Reply] = {}
        self._problem = ""
        self._is_asking = False
        self._farewell: bytes | None = None
        self.is_without = False
        self._said = self.bar
        self.since = peers.clock.monotonic()

    # --- what the runner asks -----------------------------------------------------------------------------

    @property
    def bar(self) -> str | None:
        """Why no effect may begin; None: one may."""
        agent = self._agent
        if self.is_without or agent.is_active:
            return None
        if agent.is_suspended:
            return SUSPENDED
        if self._problem:
            return f"not registered with the VM's informant: {self._problem}"
        return "waits for the leave of the VM's informant"

    @property
    def needs_peers(self) -> bool:
        """Whether connections to the VM are to be kept: an effect may begin, or is in flight."""
        return self.bar is None or self._agent.has_effect

    @property
    def registration(self) -> StoredAgent | None:
        """How the agent is listed; None while it is not registered."""
        agent = self._agent
        if agent.standing is not Standing.REGISTERED:
            return None
        return StoredAgent(
            agent.desc, f"{self.runner.settings.worker} {self.runner.key}", 0, agent.last_number
        )

    def begin_effect(self) -> bool:
        """Take leave for a request to a peer about the VM's size; `end_effect` follows where it is True."""
        if self.is_without:
            self._agent.begin_effect_without_leave()
            return True
        return self._agent.begin_effect()

    def end_effect(self) -> None:
        """The request was answered or given up: a `/suspend` that waits for it is answered."""
        for reply in self._agent.end_effect():
            self._replies[reply.ticket] = reply
            self._waiting[reply.ticket].set()
        if self.bar is not None:
            self._changed(self.runner)

    # --- registration -------------------------------------------------------------------------------------

    def due_in_s(self) -> float | None:
        """Seconds until `attempt` has something to do; None while it is at it, or once let go."""
        due = self._agent.due()
        if due is None or self._is_asking:
            return None
        rest_s = max(due - self._peers.clock.monotonic(), 0.0)
        if self.is_without:
            return self._settings.no_port_s
        return max(rest_s, MIGRATION_LOOK_S) if self.runner.vm.migrating else rest_s

    def attempt(self) -> None:
        """Register, if it is time; waits for the answer."""
        if self.runner.vm.migrating or self._is_asking or self._agent.standing is Standing.LET_GO:
            return
        self._is_asking = True
        try:
            if self._listen():
                self._register()
        finally:
            self._is_asking = False
            self._look()
            if self._farewell is not None:
                self.unregister(self._farewell)
            elif self._agent.standing in (Standing.UNREGISTERED, Standing.LET_GO):
                self._close_server()

    def let_go(self) -> bytes | None:
        """No more effects and registrations: the body for `unregister`; None where there is nothing to do.

        Where a registration is under way, the job that waits for its answer unregisters after that.
        """
        body = self._agent.let_go()
        if self._is_asking:
            self._farewell = body
            return None
        if body is None:
            self._close_server()
        return body

    def unregister(self, body: bytes) -> None:
        """Tell the informant that this agent is gone; one that can't be told finds out at its next check."""
        limit_s = self._settings.request_s
        try:
            self._peers.client.request(self.informant, "DELETE", "/unregister", body, timeout_s=limit_s)
        except PeerError as err:
            logger.debug("informant not told", extra={"vm": self.runner.key, "reason": str(err)})
        finally:
            self._close_server()

    def _listen(self) -> bool:
        """Have a server, for a new agent where there was none; whether there is one."""
        if self._server is not None:
            return True
        try:
            self._server = self._peers.servers.open(self.informant, self._handle)
        except PeerError as err:
            self._problem = err.problem
            self._fail()
            return False
        self.is_without = self._server is None
        if self._server is None:
            return False
        self._agent.start_anew(self._peers.new_id(), self._server.address)
        return True

    def _register(self) -> None:
        body = self._agent.begin_registration(self._peers.clock.monotonic())
        if body is None:
            return
        self._look()
        status, answer, problem = None, b"", ""
        try:
            status, answer = self._peers.client.request(
                self.informant, "POST", "/register", body, timeout_s=self._settings.request_s
            )
        except PeerError as err:
            problem = err.problem
        now = self._peers.clock.monotonic()
        self._agent.registration_answered(now, status, answer, jitter=self._peers.jitter())
        if self._agent.standing is Standing.UNREGISTERED:
            self._problem = problem or _refusal(status, answer)
        else:
            self._problem = ""

    def _fail(self) -> None:
        """Count a registration that could not even be sent, for the back-off."""
        now = self._peers.clock.monotonic()
        if self._agent.begin_registration(now) is not None:
            self._agent.registration_answered(now, None, b"", jitter=self._peers.jitter())

    # --- what the informant asks --------------------------------------------------------------------------

    def _handle(self, method: str, path: str, body: bytes) -> AgentAnswer:
        self._ticket += 1
        ticket = self._ticket
        replies = self._agent.handle(self._peers.clock.monotonic(), ticket, method, path, body)
        if replies:
            self._look()
            return AgentAnswer(replies[0].status, replies[0].body)
        self._waiting[ticket] = self._peers.concurrency.signal()
        self._look()
        return self._wait_for_effect(ticket)

    def _wait_for_effect(self, ticket: int) -> AgentAnswer:
        """The answer to a `/suspend`, after the effect in flight."""
        asked = self._peers.clock.monotonic()
        try:
            self._waiting[ticket].wait(self._settings.suspend_wait_s)
        finally:
            del self._waiting[ticket]
            self._agent.forget(ticket)
            reply = self._replies.pop(ticket, None)
            now = self._peers.clock.monotonic()
            if now - asked > self._settings.suspend_limit_s:
                self._agent.doubt(now, jitter=self._peers.jitter())
                self._wake(self)
        if reply is None:
            return AgentAnswer(503, b"the effect in flight has not ended\n")
        return AgentAnswer(reply.status, reply.body)

    # --- telling ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Say once what has changed, and have the runner looked at again."""
        bar = self.bar
        if bar == self._said or self._agent.standing is Standing.LET_GO:
            return
        self._said, self.since = bar, self._peers.clock.monotonic()
        leave = "no port is free: goes on without its informant" if self.is_without else "may act"
        self.runner.audit.add("informant", why=bar or leave)
        logger.info("informant", extra={"vm": self.runner.key, "state": bar or leave})
        self._changed(self.runner)

    def _close_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


def _refusal(status: int | None, answer: bytes) -> str:
    """What the informant said, for an operator: its text is not ours, so it is escaped and cut."""
    if status == 200:
        return "its answer can't be read"
    return printable(f"status {status}: {answer.decode('utf-8', 'replace').strip()}")
