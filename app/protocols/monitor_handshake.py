"""The first two messages between agent and vm-monitor: which protocol version (`spec/monitor-protocol.md`).

The agent sends the range that it speaks, `{"min": 1, "max": 1}`; the monitor answers `{"version": 1}` with
the highest shared one, or `{"error": "..."}`, after which either side closes with 1002.
"""

from __future__ import annotations

from app.errors import InvalidInput
from app.protocols.bounded_json import read_json_object, write_json
from app.protocols.monitor_wire import (
    MAX_MONITOR_PROTOCOL_VERSION,
    MAX_READ_BYTES,
    MAX_TEXT_CHARACTERS,
    MIN_MONITOR_PROTOCOL_VERSION,
)


def encode_range() -> bytes:
    """The agent's opening: the versions that we speak."""
    return write_json({"min": MIN_MONITOR_PROTOCOL_VERSION, "max": MAX_MONITOR_PROTOCOL_VERSION})


def decode_range(data: bytes) -> int:
    """The highest version that both sides speak, as the monitor works it out.

    Raises:
        InvalidInput: none is shared, or it could not be read: answer with `encode_refusal`, close 1002.
    """
    fields = _fields(data)
    low, high = _number(fields, "min"), _number(fields, "max")
    shared = min(high, MAX_MONITOR_PROTOCOL_VERSION)
    if low > high or shared < max(low, MIN_MONITOR_PROTOCOL_VERSION):
        ours = f"{MIN_MONITOR_PROTOCOL_VERSION} to {MAX_MONITOR_PROTOCOL_VERSION}"
        raise InvalidInput("handshake", f"no shared protocol version: yours are {low} to {high}, ours {ours}")
    return shared


def encode_version(version: int) -> bytes:
    """The monitor's answer when a version is shared."""
    return write_json({"version": version})


def encode_refusal(problem: str) -> bytes:
    """The monitor's answer when none is."""
    return write_json({"error": problem[:MAX_TEXT_CHARACTERS]})


def decode_version(data: bytes) -> int:
    """The version that the monitor chose, as the agent reads it.

    Raises:
        InvalidInput: an error, unreadable, or outside of the range that was sent: close 1002.
    """
    fields = _fields(data)
    error = fields.get("error")
    if error is not None and error != "":
        raise InvalidInput("handshake", f"the monitor refused: {str(error)[:MAX_TEXT_CHARACTERS]}")
    version = _number(fields, "version")
    if not MIN_MONITOR_PROTOCOL_VERSION <= version <= MAX_MONITOR_PROTOCOL_VERSION:
        raise InvalidInput("handshake", "the monitor chose a version that we do not speak")
    return version


def _fields(data: bytes) -> dict[str, object]:
    document = read_json_object(data, max_bytes=MAX_READ_BYTES, where="handshake")
    return {key.lower(): value for key, value in document.items()}


def _number(fields: dict[str, object], key: str) -> int:
    value = fields.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise InvalidInput("handshake", f"{key} is no version number")
    return value
