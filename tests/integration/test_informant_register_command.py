"""`vmscaler informant register` as a process: beside our own guest, and beside informants that misbehave."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.fakes.guest_on_loop import GuestOnLoop, response
from tests.fakes.raw_peer import Handler, RawPeer, read_exactly, read_head

COMMAND = [sys.executable, "-m", "app.main", "informant", "register"]
REGISTERED = b'{"protoVersion": 1, "metricsMethod": {"prometheus": {"port": 9100}}}'


@contextlib.contextmanager
def registering(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, url, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def event(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    found: dict[str, Any] = json.loads(line or "{}")
    return found


def told(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


@pytest.fixture
def guest() -> Iterator[GuestOnLoop]:
    guest = GuestOnLoop()
    yield guest
    guest.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_an_agent_until_it_is_told_to_end(guest: GuestOnLoop, number: signal.Signals) -> None:
    with registering(guest.url, "--json", "--timeout", "60") as process:
        registered = event(process)
        assert (registered["event"], registered["metrics_port"]) == ("registered", 9100)
        assert event(process)["event"] == "resumed"
        size = {"cpu": 1, "memory": "8Gi"}
        assert requests.put(f"{guest.url}/upscale", json=size, timeout=60).status_code == 200
        process.send_signal(number)
        ended = event(process)
        assert (ended["event"], ended["was_active"]) == ("unregistered", True)
        assert process.wait(60) == 0
        assert told(process) == ""
    assert requests.put(f"{guest.url}/upscale", json=size, timeout=60).status_code == 403


def test_a_newer_agent_suspends_it_and_gives_way_again(guest: GuestOnLoop) -> None:
    with registering(guest.url, "--json", "--timeout", "60") as older:
        assert [event(older)["event"] for _ in range(2)] == ["registered", "resumed"]
        with registering(guest.url, "--json", "--timeout", "60") as newer:
            assert event(older)["event"] == "suspended"
            assert [event(newer)["event"] for _ in range(2)] == ["registered", "resumed"]
            newer.send_signal(signal.SIGINT)
            assert event(newer)["event"] == "unregistered"
            assert newer.wait(60) == 0
        assert event(older)["event"] == "resumed"


def test_bodies_of_both_directions_are_shown(guest: GuestOnLoop) -> None:
    agent_id = "aaaaaaaa-0000-4000-8000-000000000000"
    with registering(guest.url, "-v", "--agent-id", agent_id, "--timeout", "60") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"registered: {agent_id} at 127.0.0.1:")
        assert process.stdout.readline() == "resumed: this is the current agent\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "unregistered: was the current agent\n")
    words = [" ".join(line.split()[:3]) for line in err.splitlines() if line[0] in "→←"]
    assert words[0].startswith("→ POST /register")
    assert "← GET /id" in words
    assert "← POST /resume" in words
    assert words[-2].startswith("→ DELETE /unregister")
    assert words[-1].startswith("← 200")


def informant(seen: list[str], register: bytes | None, unregister: bytes) -> Handler:
    """Answers as it is told; None: never."""

    def handle(connection: socket.socket, number: int) -> None:
        while head := read_head(connection):
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
            read_exactly(connection, int(lengths[0].split(b":")[1]))
            seen.append(head.split(b" ")[0].decode())
            answer = register if seen[-1] == "POST" else unregister
            if answer is None:
                connection.recv(1)
                return
            connection.sendall(answer)

    return handle


DONE = response(b'{"wasActive": false}')


@pytest.mark.parametrize(
    ("register", "unregister", "status", "asked", "problem"),
    [
        (response(b"no shared version", "400 Bad Request"), DONE, 1, ["POST"], "HTTP status 400: no shared"),
        (response(b'{"protoVersion": 9}'), DONE, 1, ["POST", "DELETE"], "protoVersion"),
        (response(b"[]"), DONE, 1, ["POST", "DELETE"], "an unusable answer"),
        (None, DONE, 4, ["POST", "DELETE"], "no answer in time"),
        (response(REGISTERED), response(b"gone", "404 Not Found"), 1, ["POST", "DELETE"], "404: gone"),
    ],
    ids=["refuses", "another version", "another shape", "silent", "had dropped us"],
)
def test_an_informant_that_misbehaves_is_left_and_told_of(
    register: bytes | None, unregister: bytes, status: int, asked: list[str], problem: str
) -> None:
    seen: list[str] = []
    with (
        RawPeer(informant(seen, register, unregister)) as peer,
        registering(
            f"127.0.0.1:{peer.port}", "--timeout", "60" if register else "3", "--for", "1s"
        ) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert (process.returncode, seen) == (status, asked)
    assert problem in err
    assert err.count("\n") == 1


def test_it_ends_by_itself_after_the_time_that_it_was_given() -> None:
    seen: list[str] = []
    with (
        RawPeer(informant(seen, response(REGISTERED), DONE)) as peer,
        registering(f"127.0.0.1:{peer.port}", "--timeout", "60", "--for", "1") as process,
    ):
        out, err = process.communicate(timeout=60)
    assert (process.returncode, seen, err) == (0, ["POST", "DELETE"], "")
    assert out.splitlines()[-1] == "unregistered"


def test_strangers_get_nothing_done_at_its_server(guest: GuestOnLoop) -> None:
    with registering(guest.url, "--json", "--timeout", "60") as process:
        url = f"http://{event(process)['address']}"
        assert event(process)["event"] == "resumed"
        other = {"expectedID": "bbbbbbbb-0000-4000-8000-000000000000"}
        statuses = [
            requests.post(f"{url}/suspend", json=other, timeout=60).status_code,
            requests.post(f"{url}/suspend", data=b"{", timeout=60).status_code,
            requests.get(f"{url}/suspend", timeout=60).status_code,
            requests.get(f"{url}/other", timeout=60).status_code,
            requests.post(f"{url}/suspend", data=b" " * 70_000, timeout=60).status_code,
        ]
        assert statuses == [404, 400, 405, 404, 413]
        process.send_signal(signal.SIGINT)
        assert event(process)["event"] == "unregistered"


@pytest.mark.parametrize(
    "serve", ["0.0.0.0:0", "[::]:0", "nowhere", "127.0.0.1:70000", "user@127.0.0.1:5", "127.0.0.1:"]
)
def test_an_address_that_nobody_could_call_is_wrong_usage(serve: str) -> None:
    with registering("127.0.0.1:1", "--serve", serve) as process:
        assert process.wait(60) == 2
        assert "--serve" in told(process)


def test_an_address_that_is_taken_is_wrong_usage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with registering("127.0.0.1:1", "--serve", f"127.0.0.1:{port}") as process:
            assert process.wait(60) == 2
            assert f"port {port}" in told(process)
