"""Permits over real sockets: well-behaved schedulers and hostile ones."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from app.adapters.scheduler_http import SchedulerHttp
from app.core.model import Metrics
from app.core.resources import resources
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.peers import PermitAnswer, PermitQuestion, SchedulerInfo
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine
from app.protocols.scheduler import ProtocolVersion
from tests.fakes.raw_peer import Handler, RawPeer, read_exactly, read_head

GIB = 2**30
LONG = 30.0
STATUS = b"HTTP/1.1 200 OK\r\n"
GRANT = {"permit": {"vCPUs": "500m", "mem": 2}, "resourceUnit": {"vCPUs": "250m", "mem": 1}}


def question() -> PermitQuestion:
    size = resources(250, 1)
    vm = VirtualMachine("n", "p", "u", "node", size, resources(4000, 8), size, size, GIB)
    return PermitQuestion(vm, resources(500, 2), size, Metrics(0.5, 0.4, 1e9), FencingToken(77))


def info(peer: RawPeer) -> SchedulerInfo:
    return SchedulerInfo("s", "1", f"http://{peer.host}:{peer.port}/")


def response(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_request(connection: socket.socket) -> tuple[bytes, bytes]:
    head = read_head(connection)
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return head, read_exactly(connection, int(length[0].split(b":")[1])) if length else b""


def always(answer: bytes, seen: list[tuple[bytes, bytes]] | None = None) -> Handler:
    def handle(connection: socket.socket, number: int) -> None:
        while (request := read_request(connection))[0]:
            if seen is not None:
                seen.append(request)
            connection.sendall(answer)

    return handle


def ask(peer: RawPeer, client: SchedulerHttp | None = None, timeout_s: float | None = LONG) -> PermitAnswer:
    return (client or SchedulerHttp()).ask(info(peer), question(), timeout_s=timeout_s)


def test_a_vm_that_runs_in_a_pod_is_asked_for_by_its_pods_name() -> None:
    seen: list[tuple[bytes, bytes]] = []
    asked = question()
    in_pod = replace(asked, vm=replace(asked.vm, pod_name="p-abc"))
    with RawPeer(always(response(json.dumps(GRANT).encode()), seen)) as peer:
        SchedulerHttp().ask(info(peer), in_pod, timeout_s=LONG)
    assert json.loads(seen[0][1])["pod"] == {"namespace": "n", "name": "p-abc"}


def test_a_permit_is_asked_for_with_the_token_over_one_kept_connection() -> None:
    seen: list[tuple[bytes, bytes]] = []
    client = SchedulerHttp()
    with RawPeer(always(response(json.dumps(GRANT).encode()), seen)) as peer:
        for timeout_s in (LONG, None, LONG):
            assert ask(peer, client, timeout_s) == PermitAnswer(resources(500, 2), resources(250, 1), False)
        assert len(peer.connections) == 1
        client.close()
    head, body = seen[0]
    assert head.startswith(b"POST / HTTP/1.1\r\n")
    assert b"X-Vmscaler-Token: 77\r\n" in head
    assert b"gzip" not in head
    assert json.loads(body)["protoVersion"] == 3
    assert json.loads(body)["resources"] == {"vCPUs": "500m", "mem": 2}


def test_from_v3_0_on_the_unit_is_the_agents_own() -> None:
    client = SchedulerHttp(ProtocolVersion.V4_0, resources(1000, 4))
    answer = response(json.dumps({"permit": {"vCPUs": 1, "mem": 2 * GIB}, "migrate": {}}).encode())
    with RawPeer(always(answer)) as peer:
        assert ask(peer, client) == PermitAnswer(resources(1000, 2), resources(1000, 4), True)


@pytest.mark.parametrize(
    ("status", "code"), [(b"400 x", 400), (b"404 x", 404), (b"500 x", 500), (b"201 x", 201), (b"204 x", 204)]
)
def test_another_status_is_refused_with_its_code_and_a_harmless_text(status: bytes, code: int) -> None:
    answer = response(b"no such pod\x1b[2J" + b"x" * 500, status)
    with RawPeer(always(answer)) as peer, pytest.raises(PeerRefused) as caught:
        ask(peer)
    assert caught.value.code == code
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_redirect_is_not_followed() -> None:
    with RawPeer(always(b"")) as other:
        location = b"Location: http://127.0.0.1:%d/\r\n" % other.port
        with RawPeer(always(response(b"", b"307 x", location))) as peer, pytest.raises(PeerRefused) as caught:
            ask(peer)
        assert other.connections == []
    assert caught.value.code == 307


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"nonsense", b'{"permit":{"vCPUs":-1,"mem":1}}', b" " * 65_537, b"[" * 60_000]
)
def test_a_200_that_is_no_permit_is_refused(body: bytes) -> None:
    with RawPeer(always(response(body))) as peer, pytest.raises(PeerRefused):
        ask(peer)


def test_a_claim_of_a_gigabyte_is_refused_after_64_kilobytes() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b" " * 70_000)
        peer.stopping.wait(60)

    with RawPeer(handle) as peer, pytest.raises(PeerRefused, match="65536"):
        ask(peer)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000,
    ],
)
def test_a_question_whose_answer_broke_off_may_have_been_granted(answer: bytes) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(answer)

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut):
        ask(peer)


@pytest.mark.parametrize("head", [b"", STATUS, STATUS + b"Content-Length: 5000\r\n\r\n"])
@pytest.mark.parametrize("drip", [b"", b"x"])
def test_a_scheduler_that_drips_or_says_nothing_is_left_at_the_deadline(head: bytes, drip: bytes) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(head)
        while not peer.stopping.wait(0.02):
            connection.sendall(drip)

    with RawPeer(handle) as peer, pytest.raises(PeerTimedOut):
        ask(peer, timeout_s=0.3)


def test_the_limit_counts_anew_for_each_request_of_a_kept_connection() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        while read_request(connection)[0]:
            peer.stopping.wait(0.3)
            connection.sendall(response(json.dumps(GRANT).encode()))

    client = SchedulerHttp()
    with RawPeer(handle) as peer:
        for _ in range(8):
            assert ask(peer, client, 2.0).permit == resources(500, 2)


def test_no_listener_no_time_and_no_address_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for url, timeout_s in (
        (f"http://127.0.0.1:{port}/", LONG),
        (f"http://127.0.0.1:{port}/", 0.0),
        ("https://127.0.0.1:1/", LONG),
        ("nonsense", LONG),
        ("http://:1:2/", LONG),
    ):
        with pytest.raises(PeerUnreachable):
            SchedulerHttp().request(url, b"{}", timeout_s=timeout_s, token=1)
