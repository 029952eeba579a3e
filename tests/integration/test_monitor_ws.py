"""Connections to vm-monitors over real sockets: well-behaved monitors and hostile ones."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.adapters.monitor_ws import Dispatcher, MonitorDialer
from app.core.resources import resources
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.peers import DownscaleAnswer, MonitorCallbacks
from app.ports.vm import Address
from app.protocols.monitor_guest import (
    CloseAgent,
    DownscaleAsked,
    GuestConnection,
    SendToAgent,
    UpscaleGranted,
)
from app.protocols.monitor_wire import HealthCheck
from tests.fakes.raw_peer import RawPeer, read_head
from tests.fakes.websocket_peer import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    frame,
    greeted,
    read_close_code,
    read_frame,
    read_json_frame,
    upgrade,
)

GIB = 2**30
LONG = 30.0


class Log:
    """What a session told its runner."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.answered = threading.Semaphore(0)
        self.exits: list[str] = []
        self.exited = threading.Event()

    def callbacks(self) -> MonitorCallbacks:
        def on_exit(reason: str) -> None:
            self.exits.append(reason)
            self.exited.set()

        return MonitorCallbacks(self.asked.release, self.answered.release, on_exit)


@contextmanager
def session(
    peer: RawPeer, log: Log | None = None, dialer: MonitorDialer | None = None
) -> Iterator[Dispatcher]:
    dispatcher = (dialer or MonitorDialer(LONG)).connect(
        Address(peer.host, peer.port), (log or Log()).callbacks(), timeout_s=LONG
    )
    dispatcher.serve_in_background()
    try:
        yield dispatcher
    finally:
        dispatcher.close()
        assert dispatcher._reader is not None
        assert not dispatcher._reader.is_alive()


def guest(connection: socket.socket) -> None:
    """A monitor that allows what leaves at least 1 GiB and fails upscales above 8 CPUs."""
    core = GuestConnection()
    core.receive(b'{"min":1,"max":1}')
    while (message := read_frame(connection))[0] in (TEXT, BINARY):
        for effect in core.receive(message[1]):
            match effect:
                case SendToAgent(data):
                    connection.sendall(frame(data))
                case UpscaleGranted(message_id, cpu, _):
                    answer = core.confirm_upscale(message_id)
                    if cpu > 8:
                        answer = core.report_failure(message_id, "cache hook failed")
                    connection.sendall(frame(answer))
                case DownscaleAsked(message_id, cpu, mem):
                    status = f"{cpu} {mem}"
                    connection.sendall(
                        frame(core.answer_downscale(message_id, is_allowed=mem >= GIB, status=status))
                    )
                case CloseAgent() | _:
                    return


def test_a_conversation_with_a_monitor_that_behaves() -> None:
    log = Log()
    with RawPeer(greeted(guest)) as peer, session(peer, log) as dispatcher:
        assert dispatcher.downscale(resources(1500, 2), GIB, timeout_s=LONG) == DownscaleAnswer(
            True, f"1.5 {2 * GIB}"
        )
        assert not dispatcher.downscale(resources(250, 1), GIB // 2, timeout_s=LONG).is_allowed
        dispatcher.upscale(resources(2000, 4), GIB, timeout_s=LONG)
        with pytest.raises(PeerRefused, match="cache hook failed"):
            dispatcher.upscale(resources(9000, 4), GIB, timeout_s=LONG)
        assert dispatcher.call(HealthCheck(), timeout_s=LONG).health_check == HealthCheck()
        assert (dispatcher.waiters_size, dispatcher.exited, dispatcher.exit_error) == (0, False, None)
        assert all(log.answered.acquire(timeout=LONG) for _ in range(4))
    assert log.exits == ["closed by us"]
    assert (dispatcher.exited, dispatcher.exit_error) == (True, "closed by us")


def test_neither_compression_nor_a_cookie_of_the_last_monitor_is_offered() -> None:
    heads: list[bytes] = []

    def handle(connection: socket.socket, number: int) -> None:
        heads.append(upgrade(connection))
        read_frame(connection)
        connection.sendall(frame(b'{"version": 1}'))
        guest(connection)

    with RawPeer(handle) as peer:
        for _ in range(2):
            with session(peer):
                pass
    for head in heads:
        assert head.startswith(b"GET /monitor HTTP/1.1\r\n")
        assert b"sec-websocket-extensions" not in head.lower()
        assert b"cookie" not in head.lower()


def test_calls_of_several_threads_get_their_own_answers_in_any_order() -> None:
    def answer_backwards(connection: socket.socket) -> None:
        questions = [read_json_frame(connection) for _ in range(8)]
        for question in reversed(questions):
            content = question["content"]
            assert isinstance(content, dict)
            mem = content["target"]["mem"]
            answer = {"type": "DownscaleResult", "id": question["id"], "Ok": True, "Status": str(mem)}
            connection.sendall(frame(json.dumps(answer).encode()))
        read_frame(connection)

    answers: dict[int, str] = {}
    with RawPeer(greeted(answer_backwards)) as peer, session(peer) as dispatcher:

        def ask(slots: int) -> None:
            answers[slots] = dispatcher.downscale(resources(1000, slots), 1, timeout_s=LONG).status

        threads = [threading.Thread(target=ask, args=(slots,)) for slots in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {slots: str(slots) for slots in range(1, 9)}


def test_a_request_for_memory_and_fragments_and_binary_are_understood() -> None:
    request = b'{"type":"UpscaleRequest","id":1}\n'

    def converse(connection: socket.socket) -> None:
        connection.sendall(
            frame(request[:9], is_last=False) + frame(b"", PING) + frame(request[9:], CONTINUATION)
        )
        connection.sendall(frame(request, BINARY))
        connection.sendall(frame(request, is_last=False) + frame(b"", CONTINUATION))
        while read_frame(connection)[0] >= 0:
            continue

    log = Log()
    with RawPeer(greeted(converse)) as peer, session(peer, log):
        assert all(log.asked.acquire(timeout=LONG) for _ in range(3))


def test_an_answer_that_does_not_come_times_out_and_leaves_no_waiter() -> None:
    def converse(connection: socket.socket) -> None:
        while read_frame(connection)[0] >= 0:
            continue

    with RawPeer(greeted(converse)) as peer, session(peer) as dispatcher:
        with pytest.raises(PeerTimedOut):
            dispatcher.upscale(resources(1000, 1), GIB, timeout_s=0.05)
        assert dispatcher.waiters_size == 0
        assert not dispatcher.exited


@pytest.mark.parametrize("wrong_id", [0, 1, 3, 999])
def test_an_answer_with_a_wrong_id_is_complained_of_and_the_call_still_ends_well(wrong_id: int) -> None:
    complaints: list[dict[str, object]] = []

    def converse(connection: socket.socket) -> None:
        question = read_json_frame(connection)
        for number in (wrong_id, question["id"]):
            connection.sendall(frame(json.dumps({"type": "UpscaleConfirmation", "id": number}).encode()))
        complaints.append(read_json_frame(connection))
        read_frame(connection)

    with RawPeer(greeted(converse)) as peer, session(peer) as dispatcher:
        dispatcher.upscale(resources(1000, 1), GIB, timeout_s=LONG)
        assert not dispatcher.exited
    assert [(item["type"], item["id"]) for item in complaints] == [("InvalidMessage", wrong_id)]


def test_the_end_of_the_connection_releases_a_call_at_once_without_a_close_frame() -> None:
    def converse(connection: socket.socket) -> None:
        read_frame(connection)

    log = Log()
    with RawPeer(greeted(converse)) as peer, session(peer, log) as dispatcher:
        with pytest.raises(PeerTimedOut, match="closed"):
            dispatcher.upscale(resources(1000, 1), GIB, timeout_s=LONG)
        assert dispatcher.exit_signal.wait(LONG)
        with pytest.raises(PeerUnreachable):
            dispatcher.upscale(resources(1000, 1), GIB, timeout_s=LONG)
    assert len(log.exits) == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"nonsense"), 1007),
        (frame(b"\xff\xfe"), 1007),
        (frame(b"[]"), 1011),
        (frame(b'{"type":"HealthCheck"}'), 1011),
        (frame(b'{"type":"DownscaleResult","id":2,"Ok":1}'), 1011),
        (frame(b" " * 65_537), 1009),
        (frame(b"", claim=2**30), 1009),
        (frame(b"", claim=2**63 - 1), 1009),
        (frame(b" " * 40_000, is_last=False) + frame(b" " * 40_000, CONTINUATION), 1009),
        (frame(b"x", CONTINUATION), 1002),
        (frame(b"x", 3), 1002),
        (b"\xc1\x01x", 1002),
        (frame(b"x" * 200, PING), 1002),
    ],
)
def test_a_message_that_ends_the_connection_is_answered_with_its_code(data: bytes, code: int) -> None:
    codes: list[int | None] = []

    def converse(connection: socket.socket) -> None:
        connection.sendall(data)
        codes.append(read_close_code(connection))

    log = Log()
    with RawPeer(greeted(converse)) as peer, session(peer, log) as dispatcher:
        assert log.exited.wait(LONG)
        assert dispatcher.exited
    assert codes == [code]
    assert len(log.exits) == 1


def test_a_close_frame_of_the_monitor_is_an_ordinary_end() -> None:
    def converse(connection: socket.socket) -> None:
        connection.sendall(frame(b"\x03\xe8", CLOSE))
        read_close_code(connection)

    log = Log()
    with RawPeer(greeted(converse)) as peer, session(peer, log):
        assert log.exited.wait(LONG)
    assert log.exits == ["the peer closed with code 1000"]


def test_closing_says_goodbye_with_1000_and_a_second_time_does_nothing() -> None:
    codes: list[int | None] = []

    def converse(connection: socket.socket) -> None:
        codes.append(read_close_code(connection))

    with RawPeer(greeted(converse)) as peer, session(peer) as dispatcher:
        dispatcher.close()
        dispatcher.close()
    assert codes == [1000]


def test_closing_says_goodbye_even_if_the_thread_that_serves_notices_first() -> None:
    codes: list[int | None] = []
    ending = threading.Event()
    dispatchers: list[Dispatcher] = []

    def converse(connection: socket.socket) -> None:
        assert ending.wait(LONG)
        connection.sendall(frame(b'{"type": "UpscaleRequest", "id": 1}'))
        codes.append(read_close_code(connection))

    def on_exit(_: str) -> None:
        ending.set()
        reader = dispatchers[0]._reader
        assert reader is not None
        reader.join(LONG)

    with RawPeer(greeted(converse)) as peer:
        address, callbacks = (
            Address(peer.host, peer.port),
            MonitorCallbacks(lambda: None, lambda: None, on_exit),
        )
        dispatchers.append(MonitorDialer(LONG).connect(address, callbacks, timeout_s=LONG))
        dispatchers[0].serve_in_background()
        dispatchers[0].close()
    assert codes == [1000]


def test_health_checks_go_out_by_themselves_and_count_as_successes() -> None:
    log = Log()
    dialer = MonitorDialer(LONG, health_period_s=0.05)
    with RawPeer(greeted(guest)) as peer, session(peer, log, dialer) as dispatcher:
        assert all(log.answered.acquire(timeout=LONG) for _ in range(3))
        assert not dispatcher.exited


@pytest.mark.parametrize("drip", [b"", frame(b"x", claim=60_000)[:4]])
def test_health_checks_that_go_unanswered_end_the_connection(drip: bytes) -> None:
    def converse(connection: socket.socket) -> None:
        connection.sendall(drip)
        while not peer.stopping.wait(0.02):
            connection.sendall(drip[:1])

    log = Log()
    dialer = MonitorDialer(0.1, response_timeout_s=0.05, health_period_s=0.05)
    with RawPeer(greeted(converse)) as peer, session(peer, log, dialer):
        assert log.exited.wait(LONG)
        assert log.exits == ["health checks went unanswered for too long"]


def test_a_thousand_requests_for_memory_do_not_keep_an_answer_from_coming() -> None:
    def converse(connection: socket.socket) -> None:
        question = read_json_frame(connection)
        connection.sendall(frame(b'{"type":"UpscaleRequest","id":1}') * 1000)
        connection.sendall(frame(json.dumps({"type": "UpscaleConfirmation", "id": question["id"]}).encode()))
        read_frame(connection)

    log = Log()
    with RawPeer(greeted(converse)) as peer, session(peer, log) as dispatcher:
        dispatcher.upscale(resources(1000, 1), GIB, timeout_s=LONG)
        assert all(log.asked.acquire(timeout=LONG) for _ in range(1000))


def connect(handle: Callable[[socket.socket, int], None], timeout_s: float = LONG) -> None:
    with RawPeer(handle) as peer:
        MonitorDialer(LONG).connect(
            Address(peer.host, peer.port), Log().callbacks(), timeout_s=timeout_s
        ).close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 20_000,
        b"HTTP/1.1 404 Not Found\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 101 x\r\n\r\n",
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: eA==\r\n\r\n",
        b"HTTP/1.1 101 x\r\nSet-Cookie: \x01=;;;\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"x\r\n\r\n",
        b"\xff\xff\r\n\r\n",
        b"x" * 20_000,
        b"HTTP/1.1 101 x\r\n" + b"A: b\r\n" * 5000,
    ],
)
def test_what_is_no_upgrade_is_refused(answer: bytes) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        connection.sendall(answer)

    with pytest.raises(PeerRefused):
        connect(handle)


@pytest.mark.parametrize(("body", "text"), [(b"no \x1b[31mtoken\n", ": no \\x1b[31mtoken"), (b"", "")])
def test_a_refusal_is_told_by_its_status_and_text_without_the_servers_headers(body: bytes, text: str) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_head(connection)
        head = f"HTTP/1.1 401 Unauthorized\r\nX-Inner: 5\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    with pytest.raises(PeerRefused) as caught:
        connect(handle)
    assert caught.value.problem == "HTTP status 401 instead of a websocket" + text
    assert caught.value.code == 401


@pytest.mark.parametrize("answer", [b'{"version": 2}', b'{"error": "no"}', b"x", b"{}"])
def test_a_handshake_that_fails_is_closed_with_1002(answer: bytes) -> None:
    codes: list[int | None] = []

    def handle(connection: socket.socket, number: int) -> None:
        upgrade(connection)
        read_frame(connection)
        connection.sendall(frame(answer))
        codes.append(read_close_code(connection))

    with pytest.raises(PeerRefused):
        connect(handle)
    assert codes == [1002]


def test_a_monitor_that_goes_during_the_handshake_is_refused() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        upgrade(connection)

    with pytest.raises(PeerRefused):
        connect(handle)


@pytest.mark.parametrize("stage", ["tcp", "upgrade", "handshake"])
def test_a_monitor_that_drips_or_says_nothing_is_left_at_the_deadline(stage: str) -> None:
    stopping = threading.Event()

    def handle(connection: socket.socket, number: int) -> None:
        if stage == "handshake":
            upgrade(connection)
            connection.sendall(frame(b"", claim=100))
        while not stopping.wait(0.02):
            if stage != "tcp":
                connection.sendall(b"H")

    with RawPeer(handle) as peer:
        try:
            with pytest.raises(PeerTimedOut):
                MonitorDialer(LONG).connect(Address(peer.host, peer.port), Log().callbacks(), timeout_s=0.3)
        finally:
            stopping.set()


def test_no_listener_no_name_and_no_time_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host, timeout_s in (("127.0.0.1", 5.0), ("a..b", 5.0), ("127.0.0.1", 0.0)):
        with pytest.raises(PeerUnreachable):
            MonitorDialer(LONG).connect(Address(host, port), Log().callbacks(), timeout_s=timeout_s)


def test_a_process_that_was_stopped_while_it_connected_says_nothing_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lease may be over, and a new connection of its own would end that of the next owner."""
    connect, heads = socket.create_connection, []

    def connect_and_stop(*place: Any, **options: Any) -> socket.socket:
        connection = connect(*place, **options)
        time.sleep(0.3)
        return connection

    def handle(connection: socket.socket, number: int) -> None:
        heads.append(read_head(connection))

    with RawPeer(handle) as peer:
        monkeypatch.setattr(socket, "create_connection", connect_and_stop)
        with pytest.raises(PeerTimedOut, match="no time left"):
            MonitorDialer(30.0).connect(Address(peer.host, peer.port), Log().callbacks(), timeout_s=0.2)
    assert heads in ([], [b""])


def test_a_connection_that_nobody_serves_is_closed_all_the_same() -> None:
    gone = threading.Event()

    def converse(connection: socket.socket) -> None:
        assert read_close_code(connection) == 1000
        gone.set()

    with RawPeer(greeted(converse)) as peer:
        log = Log()
        dispatcher = MonitorDialer(LONG).connect(
            Address(peer.host, peer.port), log.callbacks(), timeout_s=LONG
        )
        dispatcher.close()
        dispatcher.close()
        assert gone.wait(LONG)
        assert log.exits == ["closed by us"]
        dispatcher.serve()
        assert log.exits == ["closed by us"]


def test_a_connection_that_is_not_wanted_any_more_is_closed_at_the_next_check() -> None:
    codes: list[int | None] = []
    with RawPeer(greeted(lambda connection: codes.append(read_close_code(connection)))) as peer:
        log = Log()
        dispatcher = MonitorDialer(LONG, health_period_s=0.05).connect(
            Address(peer.host, peer.port), log.callbacks(), timeout_s=LONG
        )
        wishes = iter([True, True, False])
        dispatcher.serve(lambda: next(wishes))
        assert dispatcher.exited
    assert (codes, log.exits) == ([1000], ["not wanted any more"])
