"""QMP, the machine protocol of QEMU: lines of JSON, read and written within bounds. Sans I/O.

The server greets, the client asks for its capabilities, then each command has one answer; events may come
between any two. What a line means is decided here; sockets and time limits are the adapter's.
Source: QEMU's `docs/interop/qmp-spec.rst`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import InvalidInput
from app.protocols.bounded_json import read_json_object, write_json
from app.protocols.printable import printable

MAX_LINE_BYTES = 1024 * 1024
"""The answer to `query-hotpluggable-cpus` for 512 CPUs has 150 KB."""
MAX_EVENTS = 1000
"""Events that may come before one answer; a peer that sends more is no QEMU."""

_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The server's first line; `version` is major and minor."""

    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Event:
    """Something has happened in the VM, such as `MEMORY_DEVICE_SIZE_CHANGE`."""

    name: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """A command was carried out; `value` is what it gave."""

    value: object
    tag: object


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command was refused: the error's class, such as `DeviceNotFound`, and its text, safe to show."""

    error_class: str
    text: str
    tag: object


Message = Greeting | Event | Answer | Refusal


class Lines:
    """Takes bytes as they come and gives whole lines; at most one unfinished line is kept."""

    def __init__(self, where: str) -> None:
        """Begin with nothing; `where` is how errors call the peer."""
        self._where = where
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """More bytes from the socket.

        Raises:
            InvalidInput: the line at the front is longer than `MAX_LINE_BYTES`.
        """
        self._buffer += data
        if len(self._buffer) > MAX_LINE_BYTES and self._buffer.find(b"\n", 0, MAX_LINE_BYTES + 1) < 0:
            self._buffer.clear()
            raise InvalidInput(self._where, f"a line over {MAX_LINE_BYTES} bytes: not QMP")

    def take(self) -> bytes | None:
        """The next line without its end, None if it is not whole yet; blank lines are passed over."""
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end]).strip()
            del self._buffer[: end + 1]
            self._searched = 0
            if line:
                return line
        self._searched = len(self._buffer)
        return None


def read_message(line: bytes, where: str) -> Message:
    """What one line says.

    Args:
        where: how errors call the peer.

    Raises:
        InvalidInput: not a line of QMP.
    """
    value = read_json_object(line, max_bytes=MAX_LINE_BYTES, where=where)
    if "QMP" in value:
        return _greeting(value["QMP"], where)
    if "event" in value:
        name, data = value["event"], value.get("data", {})
        if not isinstance(name, str) or not isinstance(data, dict):
            raise InvalidInput(where, "not QMP: an event without a name")
        return Event(printable(name, 100), data)
    if "error" in value:
        return _refusal(value["error"], value.get("id"), where)
    if "return" in value:
        return Answer(value["return"], value.get("id"))
    raise InvalidInput(where, "not QMP: neither greeting, event, answer nor error")


def write_command(name: str, arguments: Mapping[str, object], tag: int) -> bytes:
    """The line for a command; `tag` comes back with its answer."""
    command: dict[str, object] = {"execute": name, "id": tag}
    if arguments:
        command["arguments"] = dict(arguments)
    return write_json(command) + b"\n"


def _greeting(value: object, where: str) -> Greeting:
    version = value.get("version") if isinstance(value, dict) else None
    numbers = version.get("qemu") if isinstance(version, dict) else None
    if not isinstance(numbers, dict):
        raise InvalidInput(where, "not QMP: a greeting without a version")
    major, minor = numbers.get("major"), numbers.get("minor")
    if type(major) is not int or type(minor) is not int:
        raise InvalidInput(where, "not QMP: a greeting without a version")
    return Greeting((major, minor))


def _refusal(value: object, tag: object, where: str) -> Refusal:
    if not isinstance(value, dict):
        raise InvalidInput(where, "not QMP: an error that is no object")
    kind, text = value.get("class"), value.get("desc")
    if not isinstance(kind, str) or not _CLASS.fullmatch(kind):
        kind = "GenericError"
    return Refusal(kind, printable(str(text) if isinstance(text, str) else "no reason given"), tag)
