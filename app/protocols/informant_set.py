"""Which agents know this VM, and which one is current: a state machine without I/O (`spec/informant.md`).

Events go in with the time they happened at (`now`, monotonic seconds), effects come out; the caller carries
them out in order. Each registration has a number of its own, so that nothing late of an earlier one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.errors import InvalidInput
from app.protocols.agent_store import AgentStore, Entry, MemoryAgentStore, StoredAgent
from app.protocols.informant import (
    PROTOCOL_VERSION,
    AgentAnswer,
    AgentDesc,
    AgentRequest,
    parse_address,
)


@dataclass(frozen=True, slots=True)
class SetSettings:
    """Times in seconds; the defaults are the protocol's.

    Attributes:
        check_after_s: from a registration, or the end of a check, to the next check.
        failed_checks: in a row, until an agent is dropped.
        agents: at most that many, those being checked included (ours).
    """

    check_after_s: float = 10.0
    id_limit_s: float = 0.25
    suspend_limit_s: float = 0.2
    resume_limit_s: float = 0.1
    failed_checks: int = 1
    agents: int = 256


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that changes nothing; status and text of the answer."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class CallAgent:
    """Send this to the agent; report `answered` or `failed` under `number`.

    Attributes:
        limit_s: from when the request is sent; one at a time is sent to an agent.
    """

    number: int
    registration: int
    desc: AgentDesc
    request: AgentRequest
    limit_s: float


@dataclass(frozen=True, slots=True)
class AgentGone:
    """A registration is over: cancel its calls, close its connection.

    Attributes:
        problem: why the agent was dropped; None where unregistering was asked for.
    """

    registration: int
    desc: AgentDesc
    problem: str | None


@dataclass(frozen=True, slots=True)
class RegistrationEnded:
    """Answer the `/register`: with the version, or with the refusal."""

    registration: int
    outcome: int | Refusal


@dataclass(frozen=True, slots=True)
class OldNumber:
    """An agent's answer had a sequence number that is not above the last; nothing acts on it."""

    desc: AgentDesc
    number: int
    last: int


SetEffect = CallAgent | AgentGone | RegistrationEnded | OldNumber

CHECK_FAILED: Final = Refusal(400, "the check of the agent's id failed")
"""Constant: nothing that the address answered, nor how, gets back to the caller."""
NOT_THE_CALLER: Final = Refusal(403, "agentServeAddr must be the caller's own address")
TAKEN: Final = Refusal(409, "this agent id is registered already")
FULL: Final = Refusal(503, "there are too many agents already")
UNREGISTERED: Final = Refusal(400, "the agent was unregistered before its check had ended")


@dataclass(slots=True)
class Agent:
    """One registration under way or in force; its place and its numbers are in the store.

    Attributes:
        caller: the address that `/register` came from.
        is_registered: its first check has succeeded.
    """

    registration: int
    desc: AgentDesc
    caller: str
    is_registered: bool = False
    failed_checks: int = 0
    check_due: float | None = None


class AgentSet:
    """The agents of one VM; the caller sees to it that one thread at a time is in it.

    Args:
        store: where agents, their order and their numbers are kept, for this set alone; None: in memory.
    """

    def __init__(self, settings: SetSettings | None = None, store: AgentStore | None = None) -> None:
        self._settings = settings or SetSettings()
        self._store = store or MemoryAgentStore(limit=self._settings.agents)
        self._by_id: dict[str, Agent] = {}
        self._current: Agent | None = None
        self._calls: dict[int, tuple[Agent, AgentRequest]] = {}
        self._switch: set[int] = set()
        self._last_registration = 0
        self._last_call = 0

    @property
    def current(self) -> Agent | None:
        """The one that may act."""
        return self._current

    @property
    def registered(self) -> tuple[Agent, ...]:
        """In the order in which their first checks succeeded."""
        found = (self._by_id.get(stored.desc.agent_id) for stored in self._store.list())
        return tuple(agent for agent in found if agent is not None)

    @property
    def calls_size(self) -> int:
        """Calls that have not ended."""
        return len(self._calls)

    def get(self, agent_id: str) -> Agent | None:
        """By id, agents still being checked included."""
        return self._by_id.get(agent_id)

    def register(
        self, desc: AgentDesc, *, caller: str, is_allowed: bool = True
    ) -> Refusal | tuple[int, list[SetEffect]]:
        """Begin a registration: its number, and the call for its id.

        Args:
            caller: where the request came from.
            is_allowed: whether that caller may name that address.
        """
        if desc.shared_version() is None:
            return Refusal(400, "no shared protocol version: ours is 1")
        if self._store.get(desc.agent_id) is not None:
            return TAKEN
        try:
            parse_address(desc.address)
        except InvalidInput as err:
            return Refusal(400, str(err))
        if not is_allowed:
            return NOT_THE_CALLER
        match self._store.register(StoredAgent(desc)):
            case Entry.THERE:
                return TAKEN
            case Entry.FULL:
                return FULL
        self._last_registration += 1
        agent = Agent(self._last_registration, desc, caller)
        self._by_id[desc.agent_id] = agent
        return agent.registration, [self._call(agent, AgentRequest.ID)]

    def unregister(
        self, desc: AgentDesc, *, is_allowed: bool = True
    ) -> Refusal | tuple[bool, list[SetEffect]]:
        """End a registration: whether it was the current agent's.

        Args:
            is_allowed: whether the caller may name that address.
        """
        agent = self._by_id.get(desc.agent_id)
        if agent is None:
            return Refusal(404, "no agent of this id is registered")
        if agent.desc.address != desc.address:
            return Refusal(400, "the address is not the one that was registered")
        if not is_allowed:
            return NOT_THE_CALLER
        was_active = agent is self._current
        return was_active, self._drop(agent, None, UNREGISTERED)

    def answered(self, now: float, number: int, answer: AgentAnswer) -> list[SetEffect]:
        """An agent has answered with status 200; a call that has been cancelled is ignored."""
        if number not in self._calls:
            return []
        agent, request = self._calls[number]
        if answer.sequence_number == 0:
            return self.failed(now, number, "sequence number 0")
        if answer.agent_id != agent.desc.agent_id:
            return self.failed(now, number, "answered with another agent's id")
        self._end_call(number)
        effects: list[SetEffect] = []
        last = self._store.note(agent.desc.agent_id, answer.sequence_number) or 0
        if answer.sequence_number <= last:
            effects.append(OldNumber(agent.desc, answer.sequence_number, last))
        if request is AgentRequest.ID:
            agent.failed_checks = 0
            agent.check_due = now + self._settings.check_after_s
            if not agent.is_registered:
                agent.is_registered = True
                self._store.confirm(agent.desc.agent_id)
                effects.append(RegistrationEnded(agent.registration, PROTOCOL_VERSION))
        return effects + self._choose()

    def failed(self, now: float, number: int, problem: str) -> list[SetEffect]:
        """A call has ended without an answer that counts; one that has been cancelled is ignored."""
        if number not in self._calls:
            return []
        agent, request = self._calls[number]
        self._end_call(number)
        if request is AgentRequest.ID and agent.is_registered:
            agent.failed_checks += 1
            if agent.failed_checks < self._settings.failed_checks:
                agent.check_due = now + self._settings.check_after_s
                return []
        return self._drop(agent, f"{request.path}: {problem}", CHECK_FAILED)

    def due(self) -> float | None:
        """When `tick` has something to do; None while nothing is to come."""
        return min(
            (agent.check_due for agent in self._by_id.values() if agent.check_due is not None), default=None
        )

    def tick(self, now: float) -> list[SetEffect]:
        """Begin the checks that are due."""
        effects: list[SetEffect] = []
        for agent in self.registered:
            if agent.check_due is not None and agent.check_due <= now:
                agent.check_due = None
                effects.append(self._call(agent, AgentRequest.ID))
        return effects

    def _choose(self) -> list[SetEffect]:
        """Make the newest agent current, once the last change-over has ended."""
        registered = self.registered
        newest = registered[-1] if registered else None
        if self._switch or newest is None or newest is self._current:
            return []
        previous, self._current = self._current, newest
        calls = [self._call(newest, AgentRequest.RESUME)]
        if previous is not None:
            calls.append(self._call(previous, AgentRequest.SUSPEND))
        self._switch = {call.number for call in calls}
        return list(calls)

    def _drop(self, agent: Agent, problem: str | None, refusal: Refusal) -> list[SetEffect]:
        del self._by_id[agent.desc.agent_id]
        self._store.unregister(agent.desc.agent_id)
        for number in [number for number, (other, _) in self._calls.items() if other is agent]:
            self._end_call(number)
        effects: list[SetEffect] = [AgentGone(agent.registration, agent.desc, problem)]
        if not agent.is_registered:
            return [*effects, RegistrationEnded(agent.registration, refusal)]
        if self._current is agent:
            self._current = None
        return effects + self._choose()

    def _end_call(self, number: int) -> None:
        del self._calls[number]
        self._switch.discard(number)

    def _call(self, agent: Agent, request: AgentRequest) -> CallAgent:
        self._last_call += 1
        self._calls[self._last_call] = (agent, request)
        limits = {
            AgentRequest.ID: self._settings.id_limit_s,
            AgentRequest.SUSPEND: self._settings.suspend_limit_s,
            AgentRequest.RESUME: self._settings.resume_limit_s,
        }
        return CallAgent(self._last_call, agent.registration, agent.desc, request, limits[request])
