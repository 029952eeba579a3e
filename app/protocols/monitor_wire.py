"""Messages between agent and vm-monitor, protocol v1.0 (`spec/monitor-protocol.md`).

The agent's messages carry their fields under `content`, the monitor's lay them flat; neither side can read
the other's shape, so each has its own pair of functions. `type` and `id` are lower case, other keys are
read in any case; missing or null is false, zero or empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from app.errors import InvalidInput
from app.protocols.bounded_json import read_json, write_json

MIN_MONITOR_PROTOCOL_VERSION = 1
MAX_MONITOR_PROTOCOL_VERSION = 1
"""v1.0."""

MAX_READ_BYTES = 65_536
"""Longest message that either of our sides reads; above it: close 1009."""

MAX_SENT_TO_AGENT_BYTES = 32_768
"""Longest message that a monitor may send: the original agent closes above it."""

MAX_TEXT_CHARACTERS = 4096
"""Where texts of our own messages are cut: escaped at worst 24 KB, so that they fit."""

MAX_ID = 2**53 - 1
"""Above it a reader that takes numbers for doubles would lose bits."""

NORMAL_CLOSURE = 1000
PROTOCOL_ERROR = 1002
INVALID_DATA = 1007
TOO_LONG = 1009
UNEXPECTED_CONDITION = 1011


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Are you there? And the answer to it, with the same id."""


@dataclass(frozen=True, slots=True)
class UpscaleNotification:
    """The agent has granted more; `cpu` in vCPUs, `mem` in bytes: the whole size, not the difference."""

    cpu: float
    mem: int


@dataclass(frozen=True, slots=True)
class UpscaleConfirmation:
    """The monitor has taken note of an upscale."""


@dataclass(frozen=True, slots=True)
class DownscaleRequest:
    """The agent asks whether it may go down to `cpu` vCPUs and `mem` bytes."""

    cpu: float
    mem: int


@dataclass(frozen=True, slots=True)
class DownscaleResult:
    """The monitor's answer to it; `status` is text for people."""

    ok: bool
    status: str


@dataclass(frozen=True, slots=True)
class UpscaleRequest:
    """The monitor asks for memory."""


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """What you sent under this id could not be read."""

    error: str


@dataclass(frozen=True, slots=True)
class InternalError:
    """Carrying out your request of this id failed."""

    error: str


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A type that this side does not know; it gets an `InvalidMessage`, and the connection lives on."""

    type_name: str


AgentMessage = HealthCheck | UpscaleNotification | DownscaleRequest | InvalidMessage | InternalError
"""What an agent sends."""

MonitorMessage = (
    HealthCheck | UpscaleConfirmation | DownscaleResult | UpscaleRequest | InvalidMessage | InternalError
)
"""What a monitor sends."""


class BadMessage(InvalidInput):
    """A message after which the connection must end.

    Attributes:
        close_code: the websocket close code that says why.
        message_id: the id that an `InvalidMessage` must carry before the close; None: just close.
    """

    def __init__(self, problem: str, *, close_code: int, message_id: int | None = None) -> None:
        super().__init__("message", problem)
        self.close_code = close_code
        self.message_id = message_id


class _WrongField(Exception):
    """A field of a known type has a wrong type; the text says which."""


def encode_from_agent(message: AgentMessage, message_id: int) -> bytes:
    """The agent's shape: fields under `content`, an empty object where there are none."""
    content: dict[str, object]
    match message:
        case HealthCheck():
            content = {}
        case UpscaleNotification(cpu, mem):
            content = {"granted": {"cpu": cpu, "mem": mem}}
        case DownscaleRequest(cpu, mem):
            content = {"target": {"cpu": cpu, "mem": mem}}
        case InvalidMessage(error) | InternalError(error):
            content = {"error": error[:MAX_TEXT_CHARACTERS]}
        case _:  # pragma: no cover
            assert_never(message)
    return write_json({"content": content, "type": type(message).__name__, "id": message_id})


def encode_from_monitor(message: MonitorMessage, message_id: int) -> bytes:
    """The monitor's shape: fields laid flat; never above `MAX_SENT_TO_AGENT_BYTES`, texts are cut."""
    fields: dict[str, object]
    match message:
        case DownscaleResult(ok, status):
            fields = {"Ok": ok, "Status": status[:MAX_TEXT_CHARACTERS]}
        case InvalidMessage(error) | InternalError(error):
            fields = {"error": error[:MAX_TEXT_CHARACTERS]}
        case HealthCheck() | UpscaleConfirmation() | UpscaleRequest():
            fields = {}
        case _:  # pragma: no cover
            assert_never(message)
    return write_json({"type": type(message).__name__, "id": message_id, **fields})


def decode_from_agent(data: bytes) -> tuple[int, AgentMessage | UnknownMessage]:
    """What a monitor reads: id and message.

    Raises:
        BadMessage: the connection must end; says with which code.
    """
    document, message_id, type_name = _envelope(data)
    try:
        return message_id, _agent_message(type_name, _folded(_folded(document).get("content"), "content"))
    except _WrongField as err:
        raise _wrong(type_name, message_id, err) from err


def decode_from_monitor(data: bytes) -> tuple[int, MonitorMessage | UnknownMessage]:
    """What an agent reads: id and message.

    Raises:
        BadMessage: the connection must end; says with which code.
    """
    document, message_id, type_name = _envelope(data)
    try:
        return message_id, _monitor_message(type_name, _folded(document))
    except _WrongField as err:
        raise _wrong(type_name, message_id, err) from err


def _agent_message(type_name: str, content: Mapping[str, object]) -> AgentMessage | UnknownMessage:
    match type_name:
        case "HealthCheck":
            return HealthCheck()
        case "UpscaleNotification":
            granted = _folded(content.get("granted"), "granted")
            return UpscaleNotification(_cpus(granted), _size(granted))
        case "DownscaleRequest":
            target = _folded(content.get("target"), "target")
            return DownscaleRequest(_cpus(target), _size(target))
        case "InvalidMessage":
            return InvalidMessage(_text(content, "error"))
        case "InternalError":
            return InternalError(_text(content, "error"))
        case _:
            return UnknownMessage(type_name)


def _monitor_message(type_name: str, fields: Mapping[str, object]) -> MonitorMessage | UnknownMessage:
    match type_name:
        case "HealthCheck":
            return HealthCheck()
        case "UpscaleConfirmation":
            return UpscaleConfirmation()
        case "DownscaleResult":
            return DownscaleResult(_flag(fields, "ok"), _text(fields, "status"))
        case "UpscaleRequest":
            return UpscaleRequest()
        case "InvalidMessage":
            return InvalidMessage(_text(fields, "error"))
        case "InternalError":
            return InternalError(_text(fields, "error"))
        case _:
            return UnknownMessage(type_name)


def _envelope(data: bytes) -> tuple[dict[str, object], int, str]:
    """The object, its id and its type."""
    if len(data) > MAX_READ_BYTES:
        raise BadMessage(f"over {MAX_READ_BYTES} bytes", close_code=TOO_LONG)
    try:
        document = read_json(data, max_bytes=MAX_READ_BYTES, where="message")
    except InvalidInput as err:
        raise BadMessage(err.problem, close_code=INVALID_DATA) from err
    if not isinstance(document, dict):
        raise BadMessage("not a JSON object", close_code=UNEXPECTED_CONDITION)
    type_name, message_id = document.get("type"), document.get("id")
    if not isinstance(type_name, str):
        raise BadMessage("its type is missing or no text", close_code=UNEXPECTED_CONDITION)
    if isinstance(message_id, bool) or not isinstance(message_id, int) or not 0 <= message_id <= MAX_ID:
        raise BadMessage("its id is missing or no whole number", close_code=UNEXPECTED_CONDITION)
    return document, message_id, type_name


def _wrong(type_name: str, message_id: int, err: _WrongField) -> BadMessage:
    return BadMessage(f"{type_name}: {err}", close_code=UNEXPECTED_CONDITION, message_id=message_id)


def _folded(value: object, name: str = "message") -> dict[str, object]:
    """An object with its keys in lower case; of several that fall together the last one counts."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _WrongField(f"{name} is no object")
    return {key.lower(): field for key, field in value.items()}


def _cpus(fields: Mapping[str, object]) -> float:
    value = fields.get("cpu")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _WrongField("cpu is no number")
    try:
        cpus = float(value)
    except OverflowError:
        cpus = math.inf
    if not 0 <= cpus < math.inf:
        raise _WrongField("cpu is negative or not finite")
    return cpus


def _size(fields: Mapping[str, object]) -> int:
    value = fields.get("mem")
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise _WrongField("mem is no number of bytes")
    return value


def _flag(fields: Mapping[str, object], key: str) -> bool:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise _WrongField(f"{key} is no boolean")
    return bool(value)


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise _WrongField(f"{key} is no text")
    return value or ""
