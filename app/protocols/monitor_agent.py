"""The agent's side of a connection to a vm-monitor, without I/O (`spec/monitor-protocol.md`, "Agent side").

Messages go in, effects come out; the caller does what they say, in order. One object per connection; it is
not thread-safe: the caller lets one call in at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from app.errors import InvalidInput
from app.protocols.monitor_handshake import decode_version, encode_range
from app.protocols.monitor_wire import (
    MAX_READ_BYTES,
    PROTOCOL_ERROR,
    TOO_LONG,
    BadMessage,
    DownscaleRequest,
    DownscaleResult,
    HealthCheck,
    InternalError,
    InvalidMessage,
    UnknownMessage,
    UpscaleConfirmation,
    UpscaleNotification,
    UpscaleRequest,
    decode_from_monitor,
    encode_from_agent,
)

Question = HealthCheck | UpscaleNotification | DownscaleRequest
"""What an agent asks and waits for an answer to."""


@dataclass(frozen=True, slots=True)
class MonitorResult:
    """What a call gave: exactly one of the three is set."""

    downscale: DownscaleResult | None = None
    confirmation: UpscaleConfirmation | None = None
    health_check: HealthCheck | None = None


@dataclass(frozen=True, slots=True)
class MoreResources:
    """What a monitor asks for. This protocol only ever asks for memory; the core takes both."""

    cpu: bool
    memory: bool


MEMORY_ONLY = MoreResources(cpu=False, memory=True)
"""What an `UpscaleRequest` means."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send this as one text message."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection with this code; it is useless from now on."""

    code: int
    problem: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake is done: calls may begin."""

    version: int


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The call of this id ended with a result."""

    call_id: int
    result: MonitorResult


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call of this id ended with an error; nothing is known of its effect."""

    call_id: int
    problem: str


@dataclass(frozen=True, slots=True)
class MoreResourcesAsked:
    """The guest asks for more."""

    which: MoreResources


AgentEffect = Send | Close | Opened | CallAnswered | CallFailed | MoreResourcesAsked


class AgentConnection:
    """State of one connection: handshake, ids, waiters.

    Ids are even, each new one 2 higher, the first is 2. A waiter leaves on every path: an answer, `forget`
    (the caller's timeout), or the end of the connection.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._is_over = False
        self._last_id = 0
        self._waiters: dict[int, Question] = {}

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and the connection not over."""
        return self._is_open and not self._is_over

    @property
    def waiters_size(self) -> int:
        """Calls that wait for an answer."""
        return len(self._waiters)

    def start(self) -> bytes:
        """The first message to send."""
        return encode_range()

    def call(self, question: Question) -> tuple[int, bytes]:
        """Register a waiter; gives the call's id and what to send. Only while `is_open`."""
        self._last_id += 2
        self._waiters[self._last_id] = question
        return self._last_id, encode_from_agent(question, self._last_id)

    def forget(self, call_id: int) -> None:
        """Nobody waits for that answer any more; unknown ids are fine."""
        self._waiters.pop(call_id, None)

    def end(self, problem: str) -> list[CallFailed]:
        """The connection is over; every waiter is released. The second time does nothing."""
        self._is_over = True
        released = [CallFailed(call_id, problem) for call_id in self._waiters]
        self._waiters.clear()
        return released

    def receive(self, data: bytes) -> list[AgentEffect]:
        """Handle one whole message, text or binary. After a `Close` nothing is handled any more."""
        if self._is_over:
            return []
        if not self._is_open:
            return self._finish_handshake(data)
        try:
            message_id, message = decode_from_monitor(data)
        except BadMessage as err:
            return self._give_up(err)
        if isinstance(message, UnknownMessage):
            return [
                *self._fail(message_id, "an unknown type of message"),
                _invalid(message_id, "unknown type"),
            ]
        question = self._waiters.pop(message_id, None)
        if question is not None:
            return [_outcome(message_id, question, message)]
        match message:
            case UpscaleRequest():
                return [MoreResourcesAsked(MEMORY_ONLY)]
            case InvalidMessage() | InternalError():
                # Answering a complaint with a complaint would never end between two that do so.
                return []
            case HealthCheck() | UpscaleConfirmation() | DownscaleResult():
                return [_invalid(message_id, "an answer that nobody waits for")]
            case _:  # pragma: no cover
                assert_never(message)

    def _finish_handshake(self, data: bytes) -> list[AgentEffect]:
        if len(data) > MAX_READ_BYTES:
            return self._close(TOO_LONG, f"over {MAX_READ_BYTES} bytes")
        try:
            version = decode_version(data)
        except InvalidInput as err:
            return self._close(PROTOCOL_ERROR, str(err))
        self._is_open = True
        return [Opened(version)]

    def _give_up(self, err: BadMessage) -> list[AgentEffect]:
        effects: list[AgentEffect] = []
        if err.message_id is not None:
            effects.append(_invalid(err.message_id, err.problem))
        return effects + self._close(err.close_code, err.problem)

    def _close(self, code: int, problem: str) -> list[AgentEffect]:
        return [Close(code, problem), *self.end(problem)]

    def _fail(self, message_id: int, problem: str) -> list[CallFailed]:
        waited = self._waiters.pop(message_id, None)
        return [] if waited is None else [CallFailed(message_id, problem)]


def _invalid(message_id: int, problem: str) -> Send:
    return Send(encode_from_agent(InvalidMessage(problem), message_id))


def _outcome(
    call_id: int,
    question: Question,
    answer: HealthCheck
    | UpscaleConfirmation
    | DownscaleResult
    | UpscaleRequest
    | InvalidMessage
    | InternalError,
) -> CallAnswered | CallFailed:
    """A call ends well only with an answer of the kind that was asked for."""
    match question, answer:
        case HealthCheck(), HealthCheck():
            return CallAnswered(call_id, MonitorResult(health_check=answer))
        case UpscaleNotification(), UpscaleConfirmation():
            return CallAnswered(call_id, MonitorResult(confirmation=answer))
        case DownscaleRequest(), DownscaleResult():
            return CallAnswered(call_id, MonitorResult(downscale=answer))
        case _, InternalError(error):
            return CallFailed(call_id, f"the monitor failed: {error}")
        case _, InvalidMessage(error):
            return CallFailed(call_id, f"the monitor could not read it: {error}")
        case _:
            asked, got = type(question).__name__, type(answer).__name__
            return CallFailed(call_id, f"asked {asked}, answered by {got}")
