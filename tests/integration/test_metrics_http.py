"""Metrics pages over real sockets: well-behaved peers and hostile ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from app.adapters.metrics_http import MetricsPages
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.vm import Address
from tests.fakes.raw_peer import RawPeer, read_head

MIB = 2**20
OK = b"HTTP/1.1 200 OK\r\n"


def response(body: bytes, headers: bytes = b"") -> bytes:
    return OK + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def always(answer: bytes) -> Callable[[socket.socket, int], None]:
    """A peer that gives the same answer to each request of a connection."""

    def handle(connection: socket.socket, number: int) -> None:
        while read_head(connection):
            connection.sendall(answer)

    return handle


def once(answer: bytes) -> Callable[[socket.socket, int], None]:
    """A peer that answers and closes."""

    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(answer)

    return handle


def fetch(peer: RawPeer, pages: MetricsPages | None = None, timeout_s: float = 20.0) -> bytes:
    source = pages if pages is not None else MetricsPages()
    return source.fetch(Address(peer.host, peer.port), timeout_s=timeout_s)


def test_one_connection_serves_many_polls() -> None:
    requests: list[bytes] = []

    def handle(connection: socket.socket, number: int) -> None:
        while head := read_head(connection):
            requests.append(head)
            connection.sendall(response(b"page %d\n" % number))

    pages = MetricsPages()
    with RawPeer(handle) as peer:
        assert [fetch(peer, pages) for _ in range(5)] == [b"page 0\n"] * 5
        assert len(peer.connections) == 1
        pages.close()
    assert requests[0].startswith(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % peer.port)
    assert b"gzip" not in requests[0]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (response(b""), b""),
        (response(b"a\n" * 50_000), b"a\n" * 50_000),
        (response(b"x" * MIB), b"x" * MIB),
        (OK + b"content-length:  2 \r\nX: a:b\r\n\r\nab", b"ab"),
        (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=1\r\ncde\r\n0\r\n\r\n", b"abcde"),
        (OK + b"Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", b""),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"y" * 16384 + b"\r\n" + b"0\r\n\r\n",
            b"y" * 16384,
        ),
        (
            OK
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"800\r\n%b\r\n" % (b"z" * 2048) * 512
            + b"0\r\n\r\n",
            b"z" * MIB,
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nold\n", b"old\n"),
        (OK + b"Connection: close\r\n\r\nlast\n", b"last\n"),
        (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", b"x"),
    ],
)
def test_bodies_of_every_framing_are_read_whole(answer: bytes, body: bytes) -> None:
    with RawPeer(once(answer)) as peer:
        assert fetch(peer) == body


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302),
        (b"HTTP/1.1 404 Not Found\r\n\r\nno", 404),
        (b"HTTP/1.1 503 x\r\nContent-Length: 1000000000\r\n\r\n", 503),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"x"), 100),
        (OK + b"Content-Length: 1000000000\r\n\r\n", None),
        (OK + b"Content-Length: %d\r\n\r\n" % (MIB + 1), None),
        (OK + b"Content-Length: -1\r\n\r\n", None),
        (OK + b"Content-Length: 1_0\r\n\r\n", None),
        (OK + b"Content-Length: 9" + b"9" * 100 + b"\r\n\r\n", None),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", None),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", None),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", None),
        (OK + b"Broken header\r\n\r\n", None),
        (OK + b" Folded: header\r\n\r\n", None),
        (OK + b"A: " + b"a" * 20_000, None),
        (OK + b"A: b\r\n" * 5_000 + b"\r\n", None),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", None),
        (b"HTTP/2 200\r\n\r\n", None),
        (b"\x00" * 20_000, None),
        (b"x" * 20_000, None),
        (OK + b"\r\n" + b"x" * (MIB + 1), None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 400, None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 9000 + b"0\r\n\r\n", None),
        (OK + b"Content-Length: 10\r\n\r\nhalf", None),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", None),
        (OK + b"Content-Le", None),
        (b"", None),
    ],
)
def test_a_peer_that_does_not_give_a_page_is_refused(answer: bytes, code: int | None) -> None:
    with RawPeer(once(answer)) as peer, pytest.raises(PeerRefused) as caught:
        fetch(peer)
    assert caught.value.code == code
    assert caught.value.peer == f"127.0.0.1:{peer.port}"


def test_a_peer_that_accepts_and_says_nothing_is_left_at_the_deadline() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        peer.stopping.wait(60)

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut):
        fetch(peer, timeout_s=0.2)


@pytest.mark.parametrize("head", [b"", OK, OK + b"Content-Length: 1000\r\n\r\n", OK + b"\r\n"])
def test_a_peer_that_drips_is_left_at_the_deadline_however_steady(head: bytes) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(head)
        while not peer.stopping.wait(0.02):
            connection.sendall(b"x")

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut):
        fetch(peer, timeout_s=0.3)


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PeerUnreachable):
        MetricsPages().fetch(Address("127.0.0.1", port), timeout_s=5)


@pytest.mark.parametrize("host", ["", "a b", "a\r\nX: y", "a/b", "a..b", "x" * 300])
def test_a_host_that_is_none_is_never_put_into_a_request(host: str) -> None:
    with pytest.raises(PeerUnreachable):
        MetricsPages().fetch(Address(host, 80), timeout_s=5)


def test_without_time_left_nothing_is_begun() -> None:
    with RawPeer(always(response(b"x"))) as peer:
        with pytest.raises(PeerUnreachable):
            fetch(peer, timeout_s=0.0)
        assert peer.connections == []


def test_a_kept_connection_that_the_peer_closed_is_replaced_once() -> None:
    pages = MetricsPages()
    with RawPeer(once(response(b"x"))) as peer:
        assert [fetch(peer, pages) for _ in range(3)] == [b"x"] * 3
        assert len(peer.connections) == 3
        pages.close()


def test_a_connection_closed_in_the_moment_of_asking_is_replaced_once() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(response(b"x"))
        if number == 0:
            # Reads the second question and goes without an answer.
            read_head(connection)

    pages = MetricsPages()
    with RawPeer(handle) as peer:
        assert fetch(peer, pages) == b"x"
        assert fetch(peer, pages) == b"x"
        assert len(peer.connections) == 2
        pages.close()


def test_what_stood_behind_an_answer_is_never_taken_for_the_next_one() -> None:
    pages = MetricsPages()
    with RawPeer(always(response(b"page") + response(b"forged"))) as peer:
        assert [fetch(peer, pages) for _ in range(3)] == [b"page"] * 3
        assert len(peer.connections) == 3
        pages.close()


def test_what_came_unasked_between_two_polls_is_never_taken_for_an_answer() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(response(b"page"))
        if number == 0:
            connection.sendall(response(b"forged"))
            has_forged.set()
        read_head(connection)

    has_forged = threading.Event()
    pages = MetricsPages()
    with RawPeer(handle) as peer:
        assert fetch(peer, pages) == b"page"
        assert has_forged.wait(30)
        assert fetch(peer, pages) == b"page"
        pages.close()


def test_an_error_ends_the_connection_and_the_next_poll_makes_a_new_one() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n" if number == 0 else response(b"x"))
        read_head(connection)

    pages = MetricsPages()
    with RawPeer(handle) as peer:
        with pytest.raises(PeerRefused):
            fetch(peer, pages)
        assert fetch(peer, pages) == b"x"
        pages.close()


def test_the_connection_unused_for_longest_makes_room() -> None:
    pages = MetricsPages(max_idle=1)
    with RawPeer(always(response(b"1"))) as first, RawPeer(always(response(b"2"))) as second:
        for _ in range(2):
            assert fetch(first, pages) == b"1"
            assert fetch(second, pages) == b"2"
        assert (len(first.connections), len(second.connections)) == (2, 2)
        pages.close()


def test_forgetting_and_closing_let_go_of_connections() -> None:
    pages = MetricsPages()
    with RawPeer(always(response(b"1"))) as peer:
        fetch(peer, pages)
        pages.forget(Address(peer.host, peer.port))
        pages.forget(Address(peer.host, peer.port))
        fetch(peer, pages)
        pages.close()
        fetch(peer, pages)
        fetch(peer, pages)
        assert len(peer.connections) == 4
