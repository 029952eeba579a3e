"""A TCP server on a free port of loopback whose every byte a test decides."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

Handler = Callable[[socket.socket, int], None]
"""Given the connection and its number, from 0; the connection is closed when it returns."""


class RawPeer:
    """Runs `handle` in a thread per connection; a context manager."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1"
        self.port: int = self._listener.getsockname()[1]
        self.stopping = threading.Event()
        self.connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> RawPeer:
        accepting = threading.Thread(target=self._accept, name="raw-peer")
        accepting.start()
        self._threads.append(accepting)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        # Handlers whose client has gone end by themselves, with what they were about to read.
        for thread in self._threads:
            thread.join(0.5)
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(30)
            # What a handler has sent has arrived when it goes on.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = len(self.connections)
            self.connections.append(connection)
            thread = threading.Thread(target=self._run, args=(connection, number), name=f"raw-peer-{number}")
            self._threads.append(thread)
            thread.start()

    def _run(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            self._handle(connection, number)


def read_head(connection: socket.socket) -> bytes:
    """A request's head, up to the empty line; empty at the end of the stream."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = connection.recv(1)
        if not piece:
            return b""
        data += piece
    return data


def read_exactly(connection: socket.socket, count: int) -> bytes:
    """That many bytes; fewer at the end of the stream."""
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data
