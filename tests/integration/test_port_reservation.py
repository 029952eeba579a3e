from __future__ import annotations

import socket

import pytest

from app.adapters.port_reservation import ReservedPort


def listen(port: int, *, is_server: bool = True) -> socket.socket:
    listener = socket.socket()
    if is_server:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_server_can_listen_on_a_reserved_port_again_and_again() -> None:
    port = ReservedPort()
    for _ in range(3):
        with listen(port.number), socket.create_connection(("127.0.0.1", port.number)):
            pass
    port.close()


def test_nobody_is_given_a_reserved_port_by_chance() -> None:
    ports = [ReservedPort() for _ in range(300)]
    numbers = {port.number for port in ports}
    others = [socket.socket() for _ in range(300)]
    for other in others:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
    given = {other.getsockname()[1] for other in others}
    for held in [*ports, *others]:
        held.close()
    assert len(numbers) == 300
    assert not numbers & given


def test_a_closed_reservation_gives_the_port_back() -> None:
    port = ReservedPort()
    with pytest.raises(OSError):
        listen(port.number, is_server=False)
    port.close()
    listen(port.number, is_server=False).close()
