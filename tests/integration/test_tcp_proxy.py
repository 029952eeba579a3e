"""The proxy that cuts the network: nothing passes, it comes late, or the connections break."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.tcp_proxy import ProxyLoop, TcpProxy


@pytest.fixture
def echo() -> Iterator[TcpProxy]:
    """A proxy before a server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1024):
                    connection.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    loop = ProxyLoop()
    proxy = TcpProxy(loop, server.getsockname())
    yield proxy
    proxy.close()
    loop.close()
    server.close()


def dial(proxy: TcpProxy, timeout_s: float = 30.0) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=timeout_s)
    connection.sendall(b"hello")
    return connection


def test_a_cut_is_silent_and_what_was_sent_comes_late(echo: TcpProxy) -> None:
    with dial(echo) as connection:
        assert connection.recv(9) == b"hello"
        echo.drop()
        connection.sendall(b"late")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(9)
        with dial(echo, 0.3) as another, pytest.raises(TimeoutError):
            another.recv(9)
        echo.resume()
        connection.settimeout(30)
        assert connection.recv(9) == b"late"


def test_a_reset_breaks_what_is_open_and_lets_new_connections_pass(echo: TcpProxy) -> None:
    with dial(echo) as connection:
        assert connection.recv(9) == b"hello"
        echo.drop()
        echo.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(9)
    with dial(echo) as another:
        assert another.recv(9) == b"hello"
