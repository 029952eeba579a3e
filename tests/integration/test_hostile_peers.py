"""Every client of ours against peers that misbehave, in one table: what comes of it, and who waits."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable

import pytest

from app.errors import PeerError, PeerRefused, PeerTimedOut
from app.protocols.informant import AgentAnswer, encode_agent_answer
from tests.fakes.our_clients import (
    OpenClient,
    Reach,
    agent,
    informant,
    metrics,
    monitor,
    platform,
    scheduler,
)
from tests.fakes.raw_peer import Handler, RawPeer, read_exactly, read_head
from tests.fakes.websocket_peer import frame, greeted, read_frame, read_json_frame, upgrade

AGENT_ID = "aaaaaaaa-0000-4000-8000-000000000000"
LONG_S, SHORT_S = 60.0, 0.3
MOST_BYTES = 24 << 20
"""A peer never gets rid of more: the platform's list may have 16 MiB, and sockets buffer some."""

BODIES: dict[OpenClient, bytes] = {
    metrics: b"node_load1 1\n",
    scheduler: json.dumps(
        {"permit": {"vCPUs": 1, "mem": 1}, "resourceUnit": {"vCPUs": 1, "mem": 1}}
    ).encode(),
    platform: json.dumps({"observed": {"cpu_m": 1, "mem": 1}}).encode(),
    informant: b'{"wasActive": false}',
    agent: encode_agent_answer(AgentAnswer(AGENT_ID, 1)),
}
"""What each HTTP client hopes for."""

HTTP = pytest.mark.parametrize("client", BODIES, ids=lambda client: client.__name__)
ALL = pytest.mark.parametrize("client", [*BODIES, monitor], ids=lambda client: client.__name__)


def read_request(connection: socket.socket) -> bytes:
    """A whole request; empty at the end of the stream."""
    head = read_head(connection)
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length"):
            read_exactly(connection, int(line.split(b":")[1]))
    return head


def response(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def pour(connection: socket.socket, piece: bytes, total: int) -> int:
    """Send until the peer hangs up, or `total` bytes; how many went."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < total:
            connection.sendall(piece)
            sent += len(piece)
    return sent


def fails(
    client: OpenClient,
    handle: Handler,
    kind: type[PeerError] | tuple[type[PeerError], ...],
    limit_s: float = LONG_S,
) -> None:
    """One question to that peer ends with such an error."""
    # The guest's client of agents knows one kind of error only.
    expected = PeerError if client is agent else kind
    if kind is PeerTimedOut:
        limit_s = SHORT_S
    with RawPeer(handle) as peer, client(Reach(peer.port)) as ask, pytest.raises(expected):
        ask(Reach(peer.port, timeout_s=limit_s))


def silent(connection: socket.socket, number: int) -> None:
    """Take everything, until the client goes."""
    while connection.recv(65_536):
        pass


def drip(piece: bytes) -> Handler:
    """A byte now and then, for ever, behind what is sent at once."""

    def handle(connection: socket.socket, number: int) -> None:
        connection.sendall(piece)
        while not stop.wait(0.05):
            connection.sendall(b"x")

    stop = threading.Event()
    return handle


@ALL
def test_a_peer_that_accepts_and_says_nothing_costs_its_limit(client: OpenClient) -> None:
    fails(client, silent, PeerTimedOut)


@ALL
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nX: "], ids=["noise", "header"])
def test_a_peer_that_sends_a_byte_now_and_then_costs_its_limit(client: OpenClient, begun: bytes) -> None:
    fails(client, drip(begun), (PeerTimedOut, PeerRefused), SHORT_S)


@HTTP
def test_a_body_that_comes_byte_by_byte_costs_its_limit(client: OpenClient) -> None:
    fails(client, drip(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"), PeerTimedOut)


@HTTP
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
    ],
    ids=["length", "until close", "chunks", "header"],
)
def test_a_gigabyte_is_never_taken_in(client: OpenClient, head: bytes) -> None:
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if b"chunked" in head else b"x" * 65_536
    sent: list[int] = []

    def handle(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(head)
        sent.append(pour(connection, piece, 1_000_000_000))

    fails(client, handle, (PeerRefused, PeerTimedOut))
    assert max(sent) < MOST_BYTES


@HTTP
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_a_peer_that_closes_in_the_middle_is_an_error(client: OpenClient, share: float) -> None:
    whole = response(BODIES[client])

    def handle(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(whole[: int(len(whole) * share)])

    fails(client, handle, (PeerRefused, PeerTimedOut))


@pytest.mark.parametrize(
    "client", [each for each in BODIES if each is not agent], ids=lambda each: each.__name__
)
def test_a_second_answer_is_not_taken_for_that_of_the_next_question(client: OpenClient) -> None:
    both = threading.Event()

    def handle(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            connection.sendall(response(BODIES[client]))
            try:
                connection.sendall(response(b"forged"))
            finally:
                both.set()

    with RawPeer(handle) as peer, client(Reach(peer.port)) as ask:
        for _ in range(3):
            both.clear()
            assert "forged" not in str(ask(Reach(peer.port, timeout_s=LONG_S)))
            assert both.wait(LONG_S)


@HTTP
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_an_error_and_never_followed(client: OpenClient, status: str) -> None:
    def elsewhere(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(response(BODIES[client]))

    with RawPeer(elsewhere) as other:
        where = f"Location: http://127.0.0.1:{other.port}/\r\n"

        def handle(connection: socket.socket, number: int) -> None:
            read_request(connection)
            connection.sendall(response(b"", status, where))

        fails(client, handle, PeerRefused)
        assert other.connections == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_monitor_that_redirects_is_refused_and_not_followed(status: str) -> None:
    with RawPeer(lambda connection, number: None) as other:
        where = f"Location: ws://127.0.0.1:{other.port}/monitor\r\n"

        def handle(connection: socket.socket, number: int) -> None:
            read_head(connection)
            connection.sendall(response(b"", status, where))

        fails(monitor, handle, PeerRefused)
        assert other.connections == []


Converse = Callable[[socket.socket], None]


def claims_a_gigabyte(connection: socket.socket) -> None:
    read_frame(connection)
    connection.sendall(frame(b"x" * 1000, claim=1_000_000_000))
    assert pour(connection, b"x" * 65_536, 1_000_000_000) < MOST_BYTES


def fragments_of_a_gigabyte(connection: socket.socket) -> None:
    read_frame(connection)
    connection.sendall(frame(b"x" * 1000, is_last=False))
    assert pour(connection, frame(b"x" * 60_000, 0, is_last=False), 1_000_000_000) < MOST_BYTES


def closes_in_a_frame(connection: socket.socket) -> None:
    read_frame(connection)
    connection.sendall(frame(b"x" * 100)[:50])


def wrong_id(connection: socket.socket) -> None:
    asked = read_json_frame(connection)
    number = asked["id"]
    assert isinstance(number, int)
    connection.sendall(frame(json.dumps({"type": "HealthCheck", "id": number + 2}).encode()))
    while read_frame(connection)[0] > 0:
        pass


def another_kind(connection: socket.socket) -> None:
    asked = read_json_frame(connection)
    connection.sendall(frame(json.dumps({"type": "UpscaleConfirmation", "id": asked["id"]}).encode()))
    read_frame(connection)


@pytest.mark.parametrize(
    ("converse", "kind"),
    [
        (claims_a_gigabyte, PeerError),
        (fragments_of_a_gigabyte, PeerError),
        (closes_in_a_frame, PeerError),
        (wrong_id, PeerTimedOut),
        (another_kind, PeerRefused),
    ],
    ids=lambda each: each.__name__,
)
def test_a_monitor_that_misbehaves_after_the_handshake(converse: Converse, kind: type[PeerError]) -> None:
    fails(monitor, greeted(converse), kind)


def test_a_monitor_whose_handshake_never_ends_is_left_after_eight_kilobytes() -> None:
    sent: list[int] = []

    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nX: ")
        sent.append(pour(connection, b"x" * 65_536, 1_000_000_000))

    fails(monitor, handle, PeerRefused)
    assert sent[0] < MOST_BYTES


def test_a_monitor_that_answers_twice_is_complained_to_and_goes_on_being_asked() -> None:
    complaints: list[object] = []

    def converse(connection: socket.socket) -> None:
        asked = read_json_frame(connection)
        answer = frame(json.dumps({"type": "HealthCheck", "id": asked["id"]}).encode())
        connection.sendall(answer + answer)
        complaints.append(read_json_frame(connection).get("type"))

    with RawPeer(greeted(converse)) as peer, monitor(Reach(peer.port)) as ask:
        ask(Reach(peer.port, timeout_s=LONG_S))
    assert complaints in (["InvalidMessage"], [None]), "it is told, unless we have gone already"


@pytest.mark.parametrize("client", [metrics, scheduler, platform, informant], ids=lambda each: each.__name__)
def test_ten_peers_that_say_nothing_keep_nobody_else_waiting(client: OpenClient) -> None:
    def good(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            connection.sendall(response(BODIES[client]))

    with (
        RawPeer(silent) as mute,
        RawPeer(good) as other,
        client(Reach(other.port)) as ask,
    ):
        gone = threading.Barrier(11)

        def wait_for_nothing() -> None:
            gone.wait(LONG_S)
            with contextlib.suppress(PeerError):
                ask(Reach(mute.port, timeout_s=LONG_S))

        waiting = [threading.Thread(target=wait_for_nothing, daemon=True) for _ in range(10)]
        for thread in waiting:
            thread.start()
        gone.wait(LONG_S)
        for _ in range(5):
            ask(Reach(other.port, timeout_s=LONG_S))
        assert all(thread.is_alive() for thread in waiting)
    for thread in waiting:
        thread.join(LONG_S)


def test_the_upgrade_alone_makes_no_monitor() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        upgrade(connection)
        read_frame(connection)

    fails(monitor, handle, PeerRefused)
