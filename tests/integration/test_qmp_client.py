"""The QMP client against peers that misbehave: every call ends in time, and says what happened."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.qmp import QmpAddress, qmp_session
from app.errors import PeerError, PeerTimedOut, PeerUnreachable
from tests.fakes.qemu import FakeQemu
from tests.fakes.raw_peer import RawPeer


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[FakeQemu]:
    with FakeQemu(tmp_path) as started:
        yield started


def ask(address: QmpAddress, timeout_s: float = 30) -> object:
    with qmp_session(address, timeout_s=timeout_s) as session:
        return session.execute("query-status")


def test_a_peer_that_never_greets_is_given_up(qemu: FakeQemu) -> None:
    qemu.behaviour = "silent"
    with pytest.raises(PeerUnreachable, match="no QMP greeting"):
        ask(QmpAddress(path=qemu.path), timeout_s=0.2)


def test_garbage_instead_of_a_greeting_is_no_qemu(qemu: FakeQemu) -> None:
    qemu.behaviour = "garbage"
    with pytest.raises(PeerUnreachable, match="no QMP greeting"):
        ask(QmpAddress(path=qemu.path))


def test_a_line_without_end_is_cut_off(qemu: FakeQemu) -> None:
    qemu.behaviour = "endless"
    with pytest.raises(PeerError, match="over 1048576 bytes"):
        ask(QmpAddress(path=qemu.path))


def test_a_connection_that_ends_before_the_answer_may_have_taken_effect(qemu: FakeQemu) -> None:
    qemu.behaviour = "breaks"
    with pytest.raises(PeerTimedOut, match="ended"):
        ask(QmpAddress(path=qemu.path))


def test_events_before_an_answer_are_passed_over(qemu: FakeQemu) -> None:
    qemu.behaviour = "chatty"
    assert ask(QmpAddress(path=qemu.path)) == {"status": "running", "singlestep": False, "running": True}


def test_no_socket_and_a_socket_that_nobody_serves_are_unreachable(qemu: FakeQemu, tmp_path: Path) -> None:
    with pytest.raises(PeerUnreachable, match="not running"):
        ask(QmpAddress(path=tmp_path / "none"))
    left = tmp_path / "left"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left))
    with pytest.raises(PeerUnreachable, match="not running"):
        ask(QmpAddress(path=left))


def test_a_long_path_is_reached_all_the_same(tmp_path: Path) -> None:
    place = tmp_path / ("d" * 120)
    place.mkdir()
    with FakeQemu(tmp_path) as qemu:
        os.rename(qemu.path, place / "qmp.sock")
        assert isinstance(ask(QmpAddress(path=place / "qmp.sock")), dict)


def test_an_answer_with_another_tag_is_not_taken_for_ours() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        connection.sendall(b'{"QMP": {"version": {"qemu": {"major": 9, "minor": 1}}}}\n')
        connection.recv(4096)
        connection.sendall(b'{"return": {}, "id": 1}\n')
        connection.recv(4096)
        connection.sendall(b'{"return": {"status": "running"}, "id": 99}\n')
        connection.recv(4096)

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut, match="not asked"):
        ask(QmpAddress(host=peer.host, port=peer.port))


def test_a_stream_of_events_does_not_hold_us_for_ever() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        connection.sendall(b'{"QMP": {"version": {"qemu": {"major": 9, "minor": 1}}}}\n')
        connection.recv(4096)
        connection.sendall(b'{"return": {}, "id": 1}\n')
        while True:
            connection.sendall(b'{"event": "TICK"}\n' * 100)

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut, match="events"):
        ask(QmpAddress(host=peer.host, port=peer.port))
