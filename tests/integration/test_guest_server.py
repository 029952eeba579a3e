"""The in-VM server over real sockets: keep-alive, bounds, time limits, websockets."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
import requests
import websocket

from app.guest.http_messages import Conversation, Request, Response, Upgrade, json_response
from app.guest.server import Limits, Server


async def _echo(conversation: Conversation) -> None:
    while True:
        message = await conversation.receive()
        text = message if isinstance(message, str) else f"binary {len(message)}"
        if text == "bye":
            await conversation.close(1000, "as asked")
            return
        if text == "crash":
            raise RuntimeError("on purpose")
        await conversation.send(text)


async def _handle(request: Request) -> Response | Upgrade:
    match request.path:
        case "/ws":
            return Upgrade(_echo)
        case "/slow":
            await asyncio.sleep(60)
        case "/crash":
            raise RuntimeError("on purpose")
    facts = {"method": request.method, "size": len(request.body), "query": request.parameters()}
    return json_response(facts)


class _Running:
    """A server on a loop of its own in a thread."""

    def __init__(self, limits: Limits) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server-under-test")
        self._thread.start()
        self.server = Server(_handle, limits=limits)
        self.address = self._call(self.server.start("127.0.0.1", 0)).result(20)
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def _call(self, coroutine: object) -> Future:  # type: ignore[type-arg]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)  # type: ignore[arg-type]

    def close(self) -> None:
        if self._thread.is_alive():
            self._call(self.server.close(0.2)).result(20)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(20)
            self._loop.close()

    def raw(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def dial(self, **options: object) -> websocket.WebSocket:
        return websocket.create_connection(f"ws://127.0.0.1:{self.address[1]}/ws", timeout=20, **options)


@pytest.fixture
def running() -> Iterator[_Running]:
    server = _Running(
        Limits(connections=4, header_bytes=2_000, body_bytes=5_000, request_s=0.5, idle_s=5, respond_s=0.5)
    )
    yield server
    server.close()


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    while data := sock.recv(65_536):
        parts.append(data)
    return b"".join(parts)


def test_a_connection_is_kept_alive_over_many_requests(running: _Running) -> None:
    with requests.Session() as session:
        for number in range(20):
            answer = session.post(f"{running.url}/x?a={number}", data=b"z" * number, timeout=20)
            assert answer.json() == {"method": "POST", "size": number, "query": {"a": str(number)}}
        assert running.server.connections == 1


def test_two_requests_sent_at_once_are_both_answered_in_order(running: _Running) -> None:
    with running.raw() as sock:
        sock.sendall(
            b"GET /?n=1 HTTP/1.1\r\nHost: a\r\n\r\nGET /?n=2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        whole = _read_all(sock)
    assert whole.count(b"200") == 2
    assert whole.index(b'"n":"1"') < whole.index(b'"n":"2"')


def test_a_body_above_the_limit_is_refused_with_413(running: _Running) -> None:
    assert requests.post(running.url, data=b"x" * 5_001, timeout=20).status_code == 413
    assert requests.post(running.url, data=b"x" * 5_000, timeout=20).status_code == 200


def test_headers_above_the_limit_are_refused(running: _Running) -> None:
    answer = requests.get(running.url, headers={"X-Long": "y" * 3_000}, timeout=20)
    assert answer.status_code == 431


def test_what_is_not_http_is_refused_and_the_connection_closed(running: _Running) -> None:
    with running.raw() as sock:
        sock.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert _read_all(sock).startswith(b"HTTP/1.1 400")


def test_a_request_that_drips_is_cut_off(running: _Running) -> None:
    with running.raw() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost:")
        try:
            left = _read_all(sock)
        except ConnectionResetError:
            left = b""
        assert left == b""


def test_a_connection_that_never_says_anything_ends_sooner_than_one_between_two_requests(
    running: _Running,
) -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with running.raw() as kept:
        kept.sendall(request)
        assert kept.recv(4096).startswith(b"HTTP/1.1 200")
        with running.raw() as silent:
            assert silent.recv(1) == b""
        kept.sendall(request)
        assert kept.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_handler_that_is_late_or_fails_costs_only_its_own_request(running: _Running) -> None:
    with requests.Session() as session:
        assert session.get(f"{running.url}/slow", timeout=20).status_code == 503
        assert session.get(f"{running.url}/crash", timeout=20).status_code == 500
        assert session.get(running.url, timeout=20).status_code == 200


def test_a_head_request_gets_the_length_without_the_body(running: _Running) -> None:
    answer = requests.head(running.url, timeout=20)
    assert int(answer.headers["Content-Length"]) > 10
    assert answer.content == b""


def test_connections_above_the_bound_are_closed_at_once(running: _Running) -> None:
    held = [running.dial() for _ in range(4)]
    with pytest.raises((requests.ConnectionError, requests.Timeout)):
        requests.get(running.url, timeout=20)
    held[0].close()
    for one in held:
        one.close()


def test_a_client_that_asks_to_go_on_gets_100_before_it_sends_the_body(running: _Running) -> None:
    with running.raw() as sock:
        sock.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert sock.recv(1000).startswith(b"HTTP/1.1 100")
        sock.sendall(b"abc")
        assert b'"size":3' in _read_all(sock)


def test_websocket_messages_come_back_and_no_extension_is_accepted(running: _Running) -> None:
    dialled = running.dial(header=["Sec-WebSocket-Extensions: permessage-deflate"])
    assert "sec-websocket-extensions" not in {name.lower() for name in dialled.headers}
    for text in ("one", "täxt", "x" * 60_000):
        dialled.send(text)
        assert dialled.recv() == text
    dialled.send_binary(b"\x00\x01")
    assert dialled.recv() == "binary 2"
    dialled.close()


def test_fragments_are_put_together_with_an_empty_last_one(running: _Running) -> None:
    dialled = running.dial()
    dialled.send_frame(websocket.ABNF.create_frame('{"a"', websocket.ABNF.OPCODE_TEXT, fin=0))
    dialled.send_frame(websocket.ABNF.create_frame(": 1}\n", websocket.ABNF.OPCODE_CONT, fin=0))
    dialled.send_frame(websocket.ABNF.create_frame("", websocket.ABNF.OPCODE_CONT, fin=1))
    assert json.loads(dialled.recv()) == {"a": 1}
    dialled.close()


@pytest.mark.parametrize(
    ("opcode", "payload", "code"),
    [
        (websocket.ABNF.OPCODE_TEXT, b"x" * 65_537, 1009),
        (websocket.ABNF.OPCODE_TEXT, b"\xff\xfe", 1007),
        (websocket.ABNF.OPCODE_CONT, b"nothing before", 1002),
        (websocket.ABNF.OPCODE_TEXT, b"bye", 1000),
        (websocket.ABNF.OPCODE_TEXT, b"crash", 1011),
    ],
)
def test_a_websocket_ends_with_the_code_that_says_why(
    running: _Running, opcode: int, payload: bytes, code: int
) -> None:
    dialled = running.dial(skip_utf8_validation=True)
    dialled.send_frame(websocket.ABNF.create_frame(payload, opcode))
    seen, data = dialled.recv_data()
    assert seen == websocket.ABNF.OPCODE_CLOSE
    assert int.from_bytes(data[:2], "big") == code
    dialled.shutdown()


def test_a_message_of_exactly_the_limit_is_taken(running: _Running) -> None:
    dialled = running.dial()
    dialled.send("x" * 65_536)
    assert len(dialled.recv()) == 65_536
    dialled.close()


def test_a_ping_is_answered(running: _Running) -> None:
    dialled = running.dial()
    dialled.ping("hello")
    opcode, frame = dialled.recv_data_frame(control_frame=True)
    assert (opcode, frame.data) == (websocket.ABNF.OPCODE_PONG, b"hello")
    dialled.close()


def test_a_plain_get_of_a_websocket_path_is_told_to_upgrade(running: _Running) -> None:
    assert requests.get(f"{running.url}/ws", timeout=20).status_code == 426
    broken = requests.get(
        f"{running.url}/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade"}, timeout=20
    )
    assert broken.status_code == 400


def test_closing_the_server_says_goodbye_to_websockets(running: _Running) -> None:
    dialled = running.dial()
    running.close()
    opcode, data = dialled.recv_data()
    assert (opcode, int.from_bytes(data[:2], "big")) == (websocket.ABNF.OPCODE_CLOSE, 1001)
    with pytest.raises(OSError):
        running.raw().close()
