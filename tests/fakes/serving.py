"""Runs a WSGI application on the real server, in a thread with a hub of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent

from app.web.protection import Protection
from app.web.server import Limits, WebServer


@contextmanager
def served(
    application: Any, limits: Limits | None = None, protection: Protection | None = None
) -> Iterator[int]:
    """The port on which `application` is served on loopback while the block runs."""
    started = threading.Event()
    parts: dict[str, Any] = {}

    def serve() -> None:
        server = WebServer(application, "127.0.0.1", 0, limits=limits, protection=protection)
        server.start()
        parts["port"] = server.port
        ended = gevent.event.Event()
        parts["wake"] = gevent.get_hub().loop.async_()
        parts["wake"].start(ended.set)
        started.set()
        ended.wait()
        server.stop()
        gevent.get_hub().destroy()

    thread = threading.Thread(target=serve, name="served", daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield parts["port"]
    finally:
        parts["wake"].send()
        thread.join(30)


def talk(port: int, data: bytes, *, wait_s: float = 30.0) -> bytes:
    """Send bytes as they are and read until the server closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as connection:
        connection.sendall(data)
        while piece := connection.recv(65_536):
            received += piece
    return received
