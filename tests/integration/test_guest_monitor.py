"""The guest's vm-monitor over a real websocket: policy, hooks, replacement, misbehaving agents."""

from __future__ import annotations

import shlex
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import websocket

from app.guest.hooks import Hook
from tests.fakes.guest_on_loop import GIB, GuestOnLoop
from tests.fakes.monitor_agent import MonitorAgent


@pytest.fixture
def guest() -> Iterator[GuestOnLoop]:
    one = GuestOnLoop()
    yield one
    one.close()


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def test_health_checks_and_upscales_are_answered(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    assert agent.ask("HealthCheck") == {"type": "HealthCheck", "id": 2}
    assert agent.upscale(8 * GIB) == {"type": "UpscaleConfirmation", "id": 4}


def test_a_downscale_is_allowed_while_enough_memory_is_left(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    agent.wait_for_samples()
    assert agent.downscale(2 * GIB)["Ok"] is True
    refused = agent.downscale(GIB)
    assert (refused["type"], refused["Ok"]) == ("DownscaleResult", False)
    assert "too little memory" in str(refused["Status"])


def test_memory_is_asked_for_again_and_again_until_it_is_granted(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    guest.used_bytes = 8 * GIB
    first, second = agent.receive(), agent.receive()
    assert (first["type"], second["type"]) == ("UpscaleRequest", "UpscaleRequest")
    assert [int(str(each["id"])) % 2 for each in (first, second)] == [1, 1]
    number = agent.send("UpscaleNotification", granted={"cpu": 1, "mem": 16 * GIB})
    while (answer := agent.receive())["type"] == "UpscaleRequest":
        continue
    assert answer == {"type": "UpscaleConfirmation", "id": number}
    agent.socket.settimeout(1.5)
    with pytest.raises(websocket.WebSocketTimeoutException):
        agent.receive()


def test_a_new_agent_replaces_the_old_one(guest: GuestOnLoop) -> None:
    old = MonitorAgent(guest.port)
    new = MonitorAgent(guest.port)
    assert old.close_code() == 1000
    assert new.ask("HealthCheck")["type"] == "HealthCheck"
    assert guest.monitor.has_agent


def test_an_old_agent_that_does_not_read_holds_up_no_new_one(guest: GuestOnLoop) -> None:
    for _ in range(5):
        MonitorAgent(guest.port, shakes_hands=False)
    assert MonitorAgent(guest.port).ask("HealthCheck")["type"] == "HealthCheck"


def test_an_agent_that_leaves_makes_room(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    agent.socket.shutdown()
    for _ in range(3_000):
        if not guest.monitor.has_agent:
            break
        time.sleep(0.01)
    assert not guest.monitor.has_agent
    assert MonitorAgent(guest.port).ask("HealthCheck")["type"] == "HealthCheck"


@pytest.mark.parametrize(
    ("opening", "code"),
    [('{"min": 2, "max": 3}', 1002), ("nonsense", 1002), ("[]", 1002), ("x" * 65_537, 1009)],
)
def test_a_handshake_that_fails_ends_the_connection(guest: GuestOnLoop, opening: str, code: int) -> None:
    agent = MonitorAgent(guest.port, shakes_hands=False)
    agent.socket.send(opening)
    if code == 1002:
        assert agent.receive().keys() == {"error"}
    assert agent.close_code() == code


@pytest.mark.parametrize(
    ("text", "code"),
    [("nonsense", 1007), ("[]", 1011), ('{"type": "HealthCheck"}', 1011), ("x" * 65_537, 1009)],
)
def test_a_message_that_can_not_be_read_ends_the_connection(guest: GuestOnLoop, text: str, code: int) -> None:
    agent = MonitorAgent(guest.port)
    agent.socket.send(text)
    assert agent.close_code() == code


def test_an_unknown_type_is_answered_and_the_connection_lives_on(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    assert agent.ask("SomethingNew")["type"] == "InvalidMessage"
    assert agent.ask("HealthCheck")["type"] == "HealthCheck"


def test_a_gigabyte_in_fragments_is_refused_early(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    block = websocket.ABNF.create_frame("x" * 60_000, websocket.ABNF.OPCODE_TEXT, fin=0)
    more = websocket.ABNF.create_frame("x" * 60_000, websocket.ABNF.OPCODE_CONT, fin=0)
    agent.socket.send_frame(block)
    agent.socket.send_frame(more)
    assert agent.close_code() == 1009


def test_a_plain_request_for_the_websocket_is_told_so(guest: GuestOnLoop) -> None:
    with socket.create_connection(("127.0.0.1", guest.port), timeout=60) as plain:
        plain.sendall(b"POST /monitor HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert plain.recv(100).startswith(b"HTTP/1.1 405")


def test_hooks_get_the_size_and_a_failure_leaves_the_loop_alive(tmp_path: Path) -> None:
    note = tmp_path / "note"
    size = "os.environ['VMSCALER_CPU'] + ' ' + os.environ['VMSCALER_MEM_BYTES']"
    write = f"import os; open({str(note)!r}, 'a').write({size})"
    guest = GuestOnLoop(hooks=(Hook(python(write), 30), Hook(python("raise SystemExit(3)"), 30)))
    try:
        agent = MonitorAgent(guest.port)
        assert agent.upscale(9 * GIB)["type"] == "UpscaleConfirmation"
        assert note.read_text() == f"2.5 {9 * GIB}"
        failed = agent.downscale(4 * GIB)
        while failed["type"] == "DownscaleResult":
            assert "samples so far" in str(failed["Status"])
            failed = agent.downscale(4 * GIB)
        assert failed["type"] == "InternalError"
        assert "status 3" in str(failed["error"])
        assert agent.ask("HealthCheck")["type"] == "HealthCheck"
    finally:
        guest.close()


def test_a_slow_hook_holds_up_no_health_check_and_is_killed(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"import time; time.sleep(4); open({str(alive)!r}, 'w').close()"
    slow = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    guest = GuestOnLoop(hooks=(Hook(python(slow), 2.0), None))
    try:
        agent = MonitorAgent(guest.port)
        number = agent.send("UpscaleNotification", granted={"cpu": 1, "mem": 9 * GIB})
        check = agent.send("HealthCheck")
        assert agent.receive() == {"type": "HealthCheck", "id": check}
        failed = agent.receive()
        assert (failed["type"], failed["id"]) == ("InternalError", number)
        assert "had not ended after 2 s" in str(failed["error"])
        time.sleep(4.5)
        assert not alive.exists()
    finally:
        guest.close()


def test_a_hook_that_can_not_be_started_is_an_internal_error() -> None:
    guest = GuestOnLoop(hooks=(Hook(tuple(shlex.split("/nonexistent/hook --now"))), None))
    try:
        failed = MonitorAgent(guest.port).upscale(9 * GIB)
    finally:
        guest.close()
    assert failed["type"] == "InternalError"
    assert "could not be started" in str(failed["error"])


def test_a_flood_of_requests_is_answered_in_full_one_for_each(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    sent = [agent.send("UpscaleNotification", granted={"cpu": 1, "mem": 9 * GIB}) for _ in range(200)]
    seen = {int(str(agent.receive()["id"])) for _ in sent}
    assert seen == set(sent)


def test_samples_that_stop_make_a_downscale_an_internal_error(guest: GuestOnLoop) -> None:
    agent = MonitorAgent(guest.port)
    agent.wait_for_samples()
    guest.is_readable = False
    time.sleep(5.5)
    failed = agent.downscale(8 * GIB)
    assert failed["type"] == "InternalError"
    assert "no memory sample" in str(failed["error"])


def test_an_agent_that_says_nothing_is_sent_away(guest: GuestOnLoop) -> None:
    silent = MonitorAgent(guest.port, shakes_hands=False)
    assert silent.close_code() == 1002
    assert not guest.monitor.has_agent
