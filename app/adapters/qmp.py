"""A client of QMP, QEMU's control socket: one session at a time, each command within a deadline.

QEMU serves one client at a time on a socket; others wait in its queue until that one has closed. So a
session is a lock on the VM: whoever reads and writes in one session is not disturbed. Sessions are short.

Blocking sockets, which gevent makes cooperative in the workers. The package `qemu.qmp` is asyncio, which
has no place beside gevent's loop (docs/adr/0007-a-qmp-client-of-our-own.md).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.errors import InvalidInput, PeerRefused, PeerTimedOut, PeerUnreachable
from app.protocols.qmp import (
    MAX_EVENTS,
    Answer,
    Event,
    Greeting,
    Lines,
    Message,
    Refusal,
    read_message,
    write_command,
)

MAX_SOCKET_PATH_BYTES = 107
"""A socket's path is an array of 108 bytes in the kernel, the end mark included."""

_RECEIVE_BYTES = 65_536
_RETRY_S = 0.02
"""Pause while QEMU's queue of waiting clients is full."""


@dataclass(frozen=True, slots=True)
class QmpAddress:
    """Where QEMU listens: a path of a unix socket, or host and port.

    TCP has no protection of its own: whoever reaches that port owns the VM and its host's user.
    """

    path: Path | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else f"{self.host}:{self.port}"


class QmpRefused(PeerRefused):
    """QEMU refused a command.

    Attributes:
        error_class: QEMU's class of the error, such as `DeviceNotFound`.
    """

    def __init__(self, peer: str, command: str, refusal: Refusal) -> None:
        super().__init__(peer, f"{command} was refused: {refusal.text}")
        self.error_class = refusal.error_class


class QmpSession:
    """One conversation; made by `qmp_session`."""

    def __init__(self, connection: socket.socket, peer: str, deadline: float) -> None:
        self.peer = peer
        self.version = (0, 0)
        self._socket = connection
        self._deadline = deadline
        self._lines = Lines(peer)
        self._tag = 0

    def execute(self, command: str, **arguments: object) -> object:
        """Carry out a command and give what it returned. Names with `_` are sent with `-`.

        Raises:
            QmpRefused: QEMU said no; nothing was done.
            PeerTimedOut: no answer, or the connection broke; it may have been done.
            PeerUnreachable: the connection was gone before the command was sent.
        """
        self._tag += 1
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        self._send(write_command(command, given, self._tag))
        for message in self._messages():
            if isinstance(message, Event):
                continue
            if isinstance(message, Answer | Refusal) and message.tag == self._tag:
                if isinstance(message, Refusal):
                    raise QmpRefused(self.peer, command, message)
                return message.value
            if isinstance(message, Refusal) and message.tag is None:
                # QEMU could not read our line at all, so it does not know its tag.
                raise QmpRefused(self.peer, command, message)
            raise PeerTimedOut(self.peer, "an answer to something that was not asked")
        raise PeerTimedOut(self.peer, f"no answer to {command}: more than {MAX_EVENTS} events")

    def begin(self) -> None:
        """Take the greeting and ask for no capability; once, before anything else.

        Raises:
            PeerUnreachable: no greeting; nothing was asked.
            PeerRefused: not QMP.
        """
        try:
            greeting = next(self._messages())
        except PeerTimedOut as err:
            problem = f"no QMP greeting ({err.problem}): busy with another client, hung, or no QEMU"
            raise PeerUnreachable(self.peer, problem) from err
        if not isinstance(greeting, Greeting):
            raise PeerRefused(self.peer, "no QMP greeting")
        self.version = greeting.version
        try:
            self.execute("qmp_capabilities")
        except PeerTimedOut as err:
            raise PeerUnreachable(self.peer, err.problem) from err

    def _send(self, line: bytes) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise PeerUnreachable(self.peer, "no time left to ask")
        try:
            self._socket.settimeout(remaining)
            self._socket.sendall(line)
        except TimeoutError as err:
            raise PeerTimedOut(self.peer, "it does not read what it is sent") from err
        except OSError as err:
            raise PeerUnreachable(self.peer, "the connection is gone: QEMU has ended, or closed it") from err

    def _messages(self) -> Iterator[Message]:
        """Messages as they come, `MAX_EVENTS` at most."""
        for _ in range(MAX_EVENTS):
            while (line := self._lines.take()) is None:
                self._receive()
            try:
                message = read_message(line, self.peer)
            except InvalidInput as err:
                raise PeerTimedOut(self.peer, err.problem) from err
            yield message

    def _receive(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise PeerTimedOut(self.peer, "no answer in time")
        try:
            self._socket.settimeout(remaining)
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError as err:
            raise PeerTimedOut(self.peer, "no answer in time") from err
        except OSError as err:
            raise PeerTimedOut(self.peer, "the connection broke: QEMU has ended, or closed it") from err
        if not data:
            raise PeerTimedOut(self.peer, "the connection ended: QEMU has ended, or closed it")
        try:
            self._lines.feed(data)
        except InvalidInput as err:
            raise PeerTimedOut(self.peer, err.problem) from err


@contextlib.contextmanager
def qmp_session(address: QmpAddress, *, timeout_s: float) -> Iterator[QmpSession]:
    """A session that has been greeted; all of it within `timeout_s`, waiting for our turn included.

    Raises:
        PeerUnreachable: nobody listens, or no turn came in time; nothing was asked.
        PeerRefused: what listens there is no QEMU.
    """
    deadline = time.monotonic() + timeout_s
    connection = _connect(address, deadline)
    try:
        session = QmpSession(connection, f"QEMU at {address}", deadline)
        session.begin()
        yield session
    finally:
        connection.close()


def _connect(address: QmpAddress, deadline: float) -> socket.socket:
    peer = f"QEMU at {address}"
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise PeerUnreachable(peer, "no connection in time")
        try:
            if address.path is None:
                return socket.create_connection((address.host, address.port), timeout=remaining)
            return _connect_path(address.path, remaining)
        except BlockingIOError:
            time.sleep(min(_RETRY_S, remaining))
        except TimeoutError as err:
            raise PeerUnreachable(peer, "no connection in time") from err
        except (FileNotFoundError, ConnectionRefusedError) as err:
            raise PeerUnreachable(peer, "nobody listens there: QEMU is not running") from err
        except (OSError, UnicodeError, ValueError) as err:
            reason = err.strerror if isinstance(err, OSError) and err.strerror else "no such address"
            raise PeerUnreachable(peer, f"no connection: {reason}") from err


def _connect_path(path: Path, timeout_s: float) -> socket.socket:
    """Connect to a unix socket; a long path is reached through its directory's descriptor."""
    connection = socket.socket(socket.AF_UNIX)
    directory = -1
    try:
        connection.settimeout(timeout_s)
        name = str(path)
        if len(os.fsencode(name)) > MAX_SOCKET_PATH_BYTES:
            directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            name = f"/proc/self/fd/{directory}/{path.name}"
        connection.connect(name)
    except BaseException:
        connection.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)
    return connection
