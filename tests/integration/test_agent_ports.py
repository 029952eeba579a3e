"""The server of one agent: who may call it, what it answers, and which ports it takes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import gevent
import pytest

from app.adapters.green import GreenConcurrency
from app.errors import PeerUnreachable
from app.ports.informants import AgentAnswer
from app.ports.vm import Address
from app.protocols.access import AllowedAddresses, parse_network
from app.web.agent_ports import AgentPort, AgentPorts
from app.web.protection import Protection

GREEN, HOSTS = GreenConcurrency(), ("127.0.0.1", "127.0.0.1")
HERE = Address("127.0.0.1", 10301)
FOREIGN = Address("192.0.2.1", 10301)


def echo(method: str, path: str, body: bytes) -> AgentAnswer:
    if path == "/nothing":
        return AgentAnswer(404, b"not found\n")
    if path == "/id" and method != "GET":
        return AgentAnswer(405, b"GET only\n")
    return AgentAnswer(200, b"%s %s %d" % (method.encode(), path.encode(), len(body)))


Opened = Callable[..., AgentPort]


@pytest.fixture
def opened() -> Iterator[Opened]:
    servers: list[AgentPort] = []

    def open_one(informant: Address = HERE, protection: Protection | None = None) -> AgentPort:
        ports = AgentPorts(GREEN, HOSTS, [], protection or Protection(), wait_s=30)
        server = ports.open(informant, echo)
        assert server is not None
        servers.append(server)
        return server

    yield open_one
    for server in servers:
        server.close()
    gevent.sleep(0.01)


def ask(address: str, data: bytes) -> bytes:
    """Send it, while greenlets run; everything that comes back until the end."""
    host, _, port = address.rpartition(":")

    def run() -> bytes:
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    answer: bytes = gevent.get_hub().threadpool.apply(run)
    return answer


def request(head: str, body: bytes = b"", more: str = "") -> bytes:
    lines = f"{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return lines.encode() + body


def test_requests_of_the_informant_are_handed_on(opened: Opened) -> None:
    address = opened().address
    answer = ask(address, request("POST /suspend", b"{}"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"Content-Type: application/json" in answer
    assert answer.endswith(b"POST /suspend 2")
    assert ask(address, request("GET /id", b"{}")).endswith(b"GET /id 2"), "a body of a GET does no harm"


def test_one_connection_serves_many_requests(opened: Opened) -> None:
    twice = b"GET /id HTTP/1.1\r\nHost: x\r\n\r\n" + request("GET /id")
    assert ask(opened().address, twice).count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize(("head", "status"), [("POST /id", b"405"), ("GET /nothing", b"404")])
def test_refusals_are_text(opened: Opened, head: str, status: bytes) -> None:
    answer = ask(opened().address, request(head))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"text/plain" in answer
    assert (b"Allow: GET" in answer) is (status == b"405")


def test_a_body_that_is_too_long_is_refused(opened: Opened) -> None:
    answer = ask(opened().address, request("POST /suspend", b"x" * 65_537))
    assert answer.startswith(b"HTTP/1.1 413")
    chunks = b"POST /suspend HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks += b"10001\r\n" + b"x" * 65_537 + b"\r\n0\r\n\r\n"
    assert ask(opened().address, chunks).startswith(b"HTTP/1.1 413")


def test_only_the_vms_own_informant_may_call(opened: Opened) -> None:
    assert ask(opened(FOREIGN).address, request("GET /id")).startswith(b"HTTP/1.1 403")


def test_a_name_stands_for_its_addresses(opened: Opened) -> None:
    assert ask(opened(Address("localhost", 1)).address, request("GET /id")).startswith(b"HTTP/1.1 200")


def test_a_name_without_an_address_lets_nobody_in(opened: Opened) -> None:
    with pytest.raises(PeerUnreachable, match="no address"):
        opened(Address("nowhere.invalid", 1))


def test_networks_and_a_token_are_asked_for_beside_that(opened: Opened) -> None:
    elsewhere = Protection(AllowedAddresses((parse_network("192.0.2.0/24"),)))
    assert ask(opened(protection=elsewhere).address, request("GET /id")).startswith(b"HTTP/1.1 403")
    address = opened(protection=Protection(token="secret")).address
    assert ask(address, request("GET /id")).startswith(b"HTTP/1.1 401")
    with_token = request("GET /id", more="Authorization: Bearer secret\r\n")
    assert ask(address, with_token).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "rubbish", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"\x00" * 100, b"GET /id HTTP/9\r\n\r\n"]
)
def test_what_is_no_request_harms_nobody(opened: Opened, rubbish: bytes) -> None:
    address = opened().address
    ask(address, rubbish + b"\r\n\r\n")
    assert ask(address, request("GET /id")).startswith(b"HTTP/1.1 200")


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def test_ports_come_from_the_range_and_go_back_to_its_end() -> None:
    first, second = free_ports(2)
    ports = AgentPorts(GREEN, ("127.0.0.1", "198.51.100.7"), [first, second], Protection(), wait_s=30)
    one = ports.open(HERE, echo)
    assert one is not None
    assert one.address == f"198.51.100.7:{first}"
    one.close()
    one.close()
    gevent.sleep(0.05)
    servers = [ports.open(HERE, echo) for _ in range(3)]
    assert [server and int(server.address.rpartition(":")[2]) for server in servers] == [second, first, None]
    for server in servers:
        if server is not None:
            server.close()
    gevent.sleep(0.05)


def test_a_port_that_others_have_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (free,) = free_ports(1)
        ports = AgentPorts(GREEN, HOSTS, [taken.getsockname()[1], free], Protection(), wait_s=30)
        server = ports.open(HERE, echo)
        assert server is not None
        assert server.address == f"127.0.0.1:{free}"
        assert ports.open(HERE, echo) is None
        server.close()
        gevent.sleep(0.05)


def test_a_closed_server_ends_its_connections_at_once(opened: Opened) -> None:
    server = opened()
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        gevent.sleep(0.05)
        server.close()
        gevent.sleep(0.05)
        assert connection.recv(10) == b""
