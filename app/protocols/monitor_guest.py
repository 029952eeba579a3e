"""The monitor's side of a connection, without I/O (`spec/monitor-protocol.md`, "Monitor side").

Messages go in, effects come out; the caller does what they say, in order, and answers what was asked with
`confirm_upscale`, `answer_downscale` or `report_failure`. One object per connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from app.errors import InvalidInput
from app.protocols.monitor_handshake import decode_range, encode_refusal, encode_version
from app.protocols.monitor_wire import (
    MAX_ID,
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
    decode_from_agent,
    encode_from_monitor,
)


@dataclass(frozen=True, slots=True)
class SendToAgent:
    """Send this as one text message."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CloseAgent:
    """End the connection with this code."""

    code: int
    problem: str


@dataclass(frozen=True, slots=True)
class AgentReady:
    """The handshake is done."""

    version: int


@dataclass(frozen=True, slots=True)
class UpscaleGranted:
    """The VM has, or is about to have, this size; answer with `confirm_upscale`."""

    message_id: int
    cpu: float
    mem: int


@dataclass(frozen=True, slots=True)
class DownscaleAsked:
    """The agent wants to go down to this size; answer with `answer_downscale`."""

    message_id: int
    cpu: float
    mem: int


GuestEffect = SendToAgent | CloseAgent | AgentReady | UpscaleGranted | DownscaleAsked


class GuestConnection:
    """State of one connection: handshake, and the odd ids of our own messages."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_over = False
        self._next_id = 1

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and the connection not given up."""
        return self._is_open and not self._is_over

    def receive(self, data: bytes) -> list[GuestEffect]:
        """Handle one whole message, text or binary. After a `CloseAgent` nothing is handled any more."""
        if self._is_over:
            return []
        if not self._is_open:
            return self._finish_handshake(data)
        try:
            message_id, message = decode_from_agent(data)
        except BadMessage as err:
            return self._give_up(err)
        match message:
            case HealthCheck():
                return [SendToAgent(encode_from_monitor(HealthCheck(), message_id))]
            case UpscaleNotification(cpu, mem):
                return [UpscaleGranted(message_id, cpu, mem)]
            case DownscaleRequest(cpu, mem):
                return [DownscaleAsked(message_id, cpu, mem)]
            case UnknownMessage():
                return [_invalid(message_id, "unknown type")]
            case InvalidMessage() | InternalError():
                return []
            case _:  # pragma: no cover
                assert_never(message)

    def request_upscale(self) -> bytes:
        """What to send to ask for memory; once a second at most, see `MemoryPolicy`."""
        message_id = self._next_id
        self._next_id = message_id + 2 if message_id + 2 <= MAX_ID else 1
        return encode_from_monitor(UpscaleRequest(), message_id)

    @staticmethod
    def confirm_upscale(message_id: int) -> bytes:
        """The answer to an upscale that was taken note of."""
        return encode_from_monitor(UpscaleConfirmation(), message_id)

    @staticmethod
    def answer_downscale(message_id: int, *, is_allowed: bool, status: str) -> bytes:
        """The answer to a downscale; `status` is for people and may be cut."""
        return encode_from_monitor(DownscaleResult(is_allowed, status), message_id)

    @staticmethod
    def report_failure(message_id: int, problem: str) -> bytes:
        """The answer where carrying out a request failed; the message loop goes on."""
        return encode_from_monitor(InternalError(problem), message_id)

    def _finish_handshake(self, data: bytes) -> list[GuestEffect]:
        if len(data) > MAX_READ_BYTES:
            return self._close(TOO_LONG, f"over {MAX_READ_BYTES} bytes")
        try:
            version = decode_range(data)
        except InvalidInput as err:
            return [SendToAgent(encode_refusal(err.problem)), *self._close(PROTOCOL_ERROR, err.problem)]
        self._is_open = True
        return [SendToAgent(encode_version(version)), AgentReady(version)]

    def _give_up(self, err: BadMessage) -> list[GuestEffect]:
        closing = self._close(err.close_code, err.problem)
        return closing if err.message_id is None else [_invalid(err.message_id, err.problem), *closing]

    def _close(self, code: int, problem: str) -> list[GuestEffect]:
        self._is_over = True
        return [CloseAgent(code, problem)]


def _invalid(message_id: int, problem: str) -> SendToAgent:
    return SendToAgent(encode_from_monitor(InvalidMessage(problem), message_id))
