"""The informant's calls to agents over real sockets, agents that misbehave in every way included."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

from app.guest.agent_client import AgentCallFailed, AgentClient
from app.protocols.informant import MAX_BODY_BYTES, AgentRequest, encode_expected_id
from tests.fakes.guest_on_loop import RawAgent, response
from tests.fakes.raw_peer import Handler, RawPeer, read_head

ID = "6a1c5f6e-1111-4222-8333-0123456789ab"
LIMIT_S = 30.0


def with_client(handle: Handler, talk: Callable[[AgentClient], Awaitable[None]]) -> None:
    """Run `talk` against a peer."""

    async def scenario(port: int) -> None:
        client = AgentClient("127.0.0.1", port)
        try:
            await talk(client)
        finally:
            client.close()

    with RawPeer(handle) as peer:
        asyncio.run(scenario(peer.port))


async def get(client: AgentClient, limit_s: float = LIMIT_S) -> bytes:
    return await client.ask(AgentRequest.ID, b"", limit_s=limit_s)


async def post(client: AgentClient, limit_s: float = LIMIT_S) -> bytes:
    return await client.ask(AgentRequest.SUSPEND, encode_expected_id(ID), limit_s=limit_s)


def failure(handle: Handler, limit_s: float = LIMIT_S) -> str:
    """Why a call of such a peer failed."""
    problems: list[str] = []

    async def talk(client: AgentClient) -> None:
        with pytest.raises(AgentCallFailed) as caught:
            await get(client, limit_s)
        problems.append(str(caught.value))

    with_client(handle, talk)
    return problems[0]


def number(answer: bytes) -> int:
    found = json.loads(answer)["sequenceNumber"]
    assert isinstance(found, int)
    return found


def test_one_connection_serves_many_requests() -> None:
    agent = RawAgent(ID)
    connections: list[int] = []

    def handle(connection: socket.socket, count: int) -> None:
        connections.append(count)
        agent(connection, count)

    async def talk(client: AgentClient) -> None:
        answers = [await get(client), await post(client), await get(client)]
        assert [number(answer) for answer in answers] == [1, 2, 3]

    with_client(handle, talk)
    assert connections == [0]
    assert agent.seen == ["/id", "/suspend", "/id"]
    assert agent.bodies == [b"", encode_expected_id(ID), b""]


def test_one_request_at_a_time_goes_to_an_agent() -> None:
    agent = RawAgent(ID)

    async def talk(client: AgentClient) -> None:
        answers = await asyncio.gather(*(get(client) for _ in range(10)))
        assert [number(answer) for answer in answers] == list(range(1, 11))

    with_client(agent, talk)


def test_a_limit_counts_from_when_the_request_is_sent() -> None:
    agent = RawAgent(ID)
    held = agent.hold("/suspend")

    async def talk(client: AgentClient) -> None:
        first = asyncio.create_task(post(client, 60))
        await asyncio.sleep(0)
        second = asyncio.create_task(get(client, 3))
        await asyncio.sleep(3.5)
        assert not second.done()
        held.set()
        assert number(await first) == 1
        assert number(await second) == 2

    with_client(agent, talk)


def test_an_agent_that_says_nothing_costs_its_limit() -> None:
    assert (
        failure(lambda connection, _: connection.recv(65_536) and _wait(connection), 0.3)
        == "no answer within 0.3 s"
    )


def _wait(connection: socket.socket) -> None:
    while connection.recv(65_536):
        continue


def test_an_agent_that_drips_costs_its_limit() -> None:
    stop = threading.Event()

    def drip(connection: socket.socket, _: int) -> None:
        read_head(connection)
        for byte in response(b"{}" + b" " * 1000):
            connection.sendall(bytes([byte]))
            if stop.wait(0.05):
                return

    try:
        assert failure(drip, 0.5) == "no answer within 0.5 s"
    finally:
        stop.set()


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
    ],
)
def test_an_answer_of_a_gigabyte_is_refused_after_its_first_64_kilobytes(head: bytes) -> None:
    sent = [0]

    def flood(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(head)
        for _block in range(1024):
            connection.sendall(b"x" * 1_048_576)
            sent[0] += 1

    assert failure(flood) == f"an answer of over {MAX_BODY_BYTES} bytes"
    assert sent[0] < 64


def test_endless_headers_are_refused() -> None:
    def flood(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for block in range(1_000):
            connection.sendall(b"X-%d: %s\r\n" % (block, b"y" * 1000))

    assert failure(flood) == "the answer is not HTTP, or too large"


def test_endless_early_answers_are_refused() -> None:
    def flood(connection: socket.socket, _: int) -> None:
        read_head(connection)
        for _again in range(100):
            connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
        connection.sendall(response(b"{}"))

    assert failure(flood) == "too many early answers"


def test_an_early_answer_is_passed_over() -> None:
    async def talk(client: AgentClient) -> None:
        assert await get(client) == b"{}"

    def handle(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" + response(b"{}"))

    with_client(handle, talk)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_a_redirect_is_an_error_and_is_not_followed(status: str) -> None:
    target_seen = threading.Event()

    def redirected_to(_connection: socket.socket, _: int) -> None:
        target_seen.set()

    with RawPeer(redirected_to) as target:
        location = f"Location: http://127.0.0.1:{target.port}/id\r\n".encode()

        def handle(connection: socket.socket, _: int) -> None:
            read_head(connection)
            connection.sendall(response(b"", status, location))

        assert failure(handle) == "redirected"
    assert not target_seen.is_set()


@pytest.mark.parametrize("status", ["204 No Content", "404 Not Found", "500 Oops"])
def test_any_other_status_is_an_error_whose_text_is_ours(status: str) -> None:
    def handle(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(response(b"" if status.startswith("204") else b"secret", status))

    assert failure(handle) == "not a 200"


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 999999 OK\r\n\r\n"]
)
def test_what_is_not_http_is_an_error(data: bytes) -> None:
    def handle(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(data)

    assert failure(handle) in ("the answer is not HTTP, or too large", "the connection ended in an answer")


def test_a_connection_that_ends_in_the_answer_is_an_error_and_not_tried_again() -> None:
    connections: list[int] = []

    def handle(connection: socket.socket, count: int) -> None:
        connections.append(count)
        read_head(connection)
        connection.sendall(response(b"x" * 100)[:-50])

    assert failure(handle) in ("the answer is not HTTP, or too large", "the connection ended in an answer")
    assert connections == [0]


def test_a_port_where_nobody_listens_is_an_error() -> None:
    async def talk() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with pytest.raises(AgentCallFailed, match="unreachable"):
            await get(AgentClient("127.0.0.1", port))

    asyncio.run(talk())


def test_a_name_that_can_not_be_looked_up_is_an_error() -> None:
    async def talk() -> None:
        with pytest.raises(AgentCallFailed, match="unreachable"):
            await get(AgentClient("a" * 70 + ".invalid", 80))

    asyncio.run(talk())


@pytest.mark.parametrize("ask", [get, post])
def test_a_connection_that_was_closed_between_requests_is_opened_anew(
    ask: Callable[[AgentClient], Awaitable[bytes]],
) -> None:
    agent = RawAgent(ID)
    closed = threading.Event()

    def handle(connection: socket.socket, _: int) -> None:
        agent.note(connection, read_head(connection))
        connection.sendall(agent.answer())
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    async def talk(client: AgentClient) -> None:
        assert number(await get(client)) == 1
        await asyncio.to_thread(closed.wait, 30)
        assert number(await ask(client)) == 2

    with_client(handle, talk)


def _closes_on_the_second_request(agent: RawAgent) -> Handler:
    """Answers the first request of its first connection, and ends it when the second has come."""

    def handle(connection: socket.socket, count: int) -> None:
        agent.note(connection, read_head(connection))
        connection.sendall(agent.answer())
        if count == 0:
            agent.note(connection, read_head(connection))
        else:
            _wait(connection)

    return handle


def test_a_get_whose_kept_connection_ends_is_sent_once_more() -> None:
    agent = RawAgent(ID)

    async def talk(client: AgentClient) -> None:
        assert [number(await get(client)) for _ in range(2)] == [1, 2]

    with_client(_closes_on_the_second_request(agent), talk)
    assert agent.seen == ["/id", "/id", "/id"]


def test_a_post_whose_kept_connection_ends_is_not_sent_again() -> None:
    agent = RawAgent(ID)

    async def talk(client: AgentClient) -> None:
        await get(client)
        with pytest.raises(AgentCallFailed, match="ended before an answer"):
            await post(client)

    with_client(_closes_on_the_second_request(agent), talk)
    assert agent.seen == ["/id", "/suspend"]


def test_a_get_is_sent_no_more_than_twice() -> None:
    seen: list[int] = []

    def handle(connection: socket.socket, count: int) -> None:
        read_head(connection)
        seen.append(count)
        if count == 0:
            connection.sendall(response(b"{}"))
            read_head(connection)
            seen.append(count)

    async def talk(client: AgentClient) -> None:
        await get(client)
        with pytest.raises(AgentCallFailed, match="twice"):
            await get(client)

    with_client(handle, talk)
    assert seen == [0, 0, 1]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_second_answer_is_not_taken_for_that_of_the_next_request(is_late: bool) -> None:
    agent = RawAgent(ID)
    sent = threading.Event()

    def handle(connection: socket.socket, _: int) -> None:
        agent.note(connection, read_head(connection))
        first = agent.answer()
        if is_late:
            connection.sendall(first)
            connection.sendall(first)
        else:
            connection.sendall(first + first)
        sent.set()
        _wait(connection)

    async def talk(client: AgentClient) -> None:
        assert number(await get(client)) == 1
        await asyncio.to_thread(sent.wait, 30)
        await asyncio.sleep(0.2)
        assert number(await get(client)) == 2

    with_client(handle, talk)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    def handle(connection: socket.socket, _: int) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n{}")

    async def talk(client: AgentClient) -> None:
        assert await get(client) == b"{}"
        assert await get(client) == b"{}"

    with_client(handle, talk)


def test_a_failed_call_leaves_the_next_one_alone() -> None:
    def handle(connection: socket.socket, count: int) -> None:
        read_head(connection)
        if count == 0:
            _wait(connection)
        connection.sendall(response(b"{}"))

    async def talk(client: AgentClient) -> None:
        with pytest.raises(AgentCallFailed):
            await get(client, 0.2)
        assert await get(client) == b"{}"

    with_client(handle, talk)
