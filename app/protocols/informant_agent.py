"""An agent's side of the informant protocol, for one pair of worker and VM (`spec/informant.md`).

Without I/O: `handle` takes each request and gives replies, then or later. Beside that it says whether an
effect may begin, and when to register. `now` is monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from app.errors import InvalidInput
from app.protocols.informant import (
    PROTOCOL_VERSION,
    AgentAnswer,
    AgentDesc,
    AgentRequest,
    decode_expected_id,
    decode_registered,
    encode_agent_answer,
    encode_agent_desc,
)


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """Seconds.

    Attributes:
        silence_s: without a request while registered, until we take it that the informant has dropped us;
            more than two of its checks.
        resume_s: the same, from an answer to `/register` that no `/resume` has followed: an agent whose
            `/resume` failed is dropped and not told. More than the limits of a change-over.
        retry_s: to the second try to register; doubles with each.
        retry_max_s: the longest of these waits, the jitter not counted.
        settled_s: a registration that has lived that long makes the waits short again.
    """

    silence_s: float = 25.0
    resume_s: float = 3.0
    retry_s: float = 1.0
    retry_max_s: float = 60.0
    settled_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came under `ticket`."""

    ticket: int
    status: int
    body: bytes


class Standing(Enum):
    """Where an agent stands with its informant."""

    UNREGISTERED = "unregistered"
    REGISTERING = "registering"
    REGISTERED = "registered"
    LET_GO = "let go"


class InformantAgent:
    """One agent towards one informant.

    Args:
        agent_id: a uuid, new for each object.
        address: `host:port` of our server for this agent alone.
        now: when to register for the first time.
    """

    def __init__(self, agent_id: str, address: str, now: float, times: AgentTimes | None = None) -> None:
        self._desc = AgentDesc(agent_id, address, PROTOCOL_VERSION, PROTOCOL_VERSION)
        self._times = times or AgentTimes()
        self._standing = Standing.UNREGISTERED
        self._is_resumed = False
        self._was_resumed = False
        self._is_suspended = False
        self._is_told = True
        self._doubt_at: float | None = None
        self._effects = 0
        self._waiting: list[int] = []
        self._last_number = 0
        self._tries = 0
        self._register_at = now
        self._registered_at = now
        self._last_heard = now
        self._metrics_port: int | None = None

    @property
    def standing(self) -> Standing:
        """Whether we are registered."""
        return self._standing

    @property
    def desc(self) -> AgentDesc:
        """Who we are towards the informant."""
        return self._desc

    @property
    def last_number(self) -> int:
        """The highest sequence number that an answer had; 0: none yet."""
        return self._last_number

    @property
    def metrics_port(self) -> int | None:
        """Where the VM's metrics page is, as the informant said last."""
        return self._metrics_port

    @property
    def is_active(self) -> bool:
        """Whether an effect on the VM may begin."""
        return self._is_resumed and self._standing in (Standing.REGISTERING, Standing.REGISTERED)

    @property
    def is_suspended(self) -> bool:
        """Whether what the informant said last was `/suspend`, and we are registered."""
        return self._is_suspended and self._standing is not Standing.UNREGISTERED

    @property
    def has_effect(self) -> bool:
        """Whether an effect is in flight."""
        return self._effects > 0

    def begin_effect(self) -> bool:
        """Take leave to change the VM; where it is True, `end_effect` must follow on every path."""
        if self.is_active:
            self.begin_effect_without_leave()
            return True
        return False

    def begin_effect_without_leave(self) -> None:
        """For a VM that goes on without its informant; a `/suspend` that comes later waits for it too."""
        self._effects += 1

    def end_effect(self) -> list[Reply]:
        """An effect has ended; answers the `/suspend` that has waited for the last one."""
        self._effects -= 1
        if self._effects > 0:
            return []
        tickets, self._waiting = self._waiting, []
        return [self._confirm(ticket) for ticket in tickets]

    def handle(self, now: float, ticket: int, method: str, path: str, body: bytes) -> list[Reply]:
        """Take a request; `/suspend` may be answered later, everything else is at once.

        Args:
            ticket: what the caller knows the request by.
        """
        request = next((each for each in AgentRequest if each.path == path), None)
        if request is None or self._standing not in (Standing.REGISTERING, Standing.REGISTERED):
            return [_refuse(ticket, 404, "not found")]
        if request.method != method:
            return [_refuse(ticket, 405, f"{request.method} only")]
        if request is AgentRequest.ID:
            self._heard(now)
            return [self._confirm(ticket)]
        try:
            expected = decode_expected_id(body)
        except InvalidInput:
            return [_refuse(ticket, 400, "bad JSON")]
        if expected != self._desc.agent_id:
            return [_refuse(ticket, 404, "another agent is meant")]
        self._heard(now)
        self._is_told = True
        self._is_resumed = self._was_resumed = request is AgentRequest.RESUME
        self._is_suspended = not self._is_resumed
        if self._effects and not self._is_resumed:
            self._waiting.append(ticket)
            return []
        return [self._confirm(ticket)]

    def forget(self, ticket: int) -> None:
        """Whoever sent this request waits no longer; the bar of a `/suspend` stays."""
        self._waiting = [each for each in self._waiting if each != ticket]

    def due(self) -> float | None:
        """When `begin_registration` has something to do; None while its answer is out, or once let go."""
        match self._standing:
            case Standing.UNREGISTERED:
                return self._register_at
            case Standing.REGISTERED:
                silence_s = self._times.silence_s if self._is_told else self._times.resume_s
                dues = [self._last_heard + silence_s]
                return min(dues if self._doubt_at is None else [*dues, self._doubt_at])
            case _:
                return None

    def start_anew(self, agent_id: str, address: str) -> None:
        """Be another agent at another address from the next registration on; only while unregistered.

        A registration whose answer was lost may stand with the old ones: its next check finds nobody.
        """
        if self._standing is Standing.UNREGISTERED:
            self._desc = AgentDesc(agent_id, address, PROTOCOL_VERSION, PROTOCOL_VERSION)

    def doubt(self, now: float, *, jitter: float) -> None:
        """The informant had no reason to wait so long for our answer: register again, if it stays silent."""
        if self._standing is Standing.REGISTERED:
            self._doubt_at = now + self._back_off(jitter)

    def begin_registration(self, now: float) -> bytes | None:
        """The body to send to `/register`; None where it is not time yet.

        Silence of the informant counts as having been dropped: nothing may begin until the next `/resume`.
        """
        due = self.due()
        if due is None or now < due:
            return None
        self._standing = Standing.REGISTERING
        self._was_resumed, self._is_resumed = self._is_resumed, False
        self._doubt_at, self._is_told = None, False
        return encode_agent_desc(self._desc)

    def registration_answered(self, now: float, status: int | None, body: bytes, *, jitter: float) -> None:
        """The answer to `/register`; 409: registered all along, what the informant said last holds.

        Args:
            status: None where there was no answer.
            jitter: 0 to 1, by how much of itself the next wait is longer.
        """
        if self._standing is not Standing.REGISTERING:
            return
        if status == 409 or (status == 200 and self._take_answer(body)):
            self._standing = Standing.REGISTERED
            if status == 409:
                self._is_resumed, self._is_told = self._was_resumed, True
            self._is_suspended = self._is_suspended and self._is_told
            self._registered_at = self._last_heard = now
            self._tries += 1
            return
        self._standing = Standing.UNREGISTERED
        self._is_resumed = self._was_resumed = self._is_suspended = False
        self._register_at = now + self._back_off(jitter)
        self._tries += 1

    def let_go(self) -> bytes | None:
        """Stop for good: the body to send to `/unregister`, or None where we can't be registered."""
        is_known = self._standing in (Standing.REGISTERING, Standing.REGISTERED)
        self._standing = Standing.LET_GO
        self._is_resumed = False
        return encode_agent_desc(self._desc) if is_known else None

    def _back_off(self, jitter: float) -> float:
        wait_s = min(self._times.retry_s * float(1 << min(self._tries, 32)), self._times.retry_max_s)
        return wait_s * (1 + jitter)

    def _take_answer(self, body: bytes) -> bool:
        try:
            _, self._metrics_port = decode_registered(body)
        except InvalidInput:
            return False
        return True

    def _heard(self, now: float) -> None:
        self._last_heard = now
        self._doubt_at = None
        if self._standing is Standing.REGISTERED and now - self._registered_at >= self._times.settled_s:
            self._tries = 0

    def _confirm(self, ticket: int) -> Reply:
        self._last_number += 1
        return Reply(ticket, 200, encode_agent_answer(AgentAnswer(self._desc.agent_id, self._last_number)))


def _refuse(ticket: int, status: int, text: str) -> Reply:
    return Reply(ticket, status, text.encode() + b"\n")
