"""`vmscaler guest run` as a process."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import websocket

from app.guest.cpus import CPUS
from tests.fakes.guest_on_loop import RawAgent
from tests.fakes.raw_peer import RawPeer

_COMMAND = [
    sys.executable,
    "-c",
    "import sys; from app.guest.main import main; sys.exit(main(sys.argv[1:]))",
    "run",
]
_LINE = re.compile(r"(\w+): listening on (?:ws|http)://127\.0\.0\.1:(\d+)(\S*)")
A = "aaaaaaaa-0000-4000-8000-000000000000"


@contextlib.contextmanager
def daemon(*words: str, roles: int) -> Iterator[tuple[dict[str, int], subprocess.Popen[str]]]:
    """Run it; the port of each role. It must end with status 0 on SIGTERM."""
    with subprocess.Popen([*_COMMAND, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ports = {}
            for _ in range(roles):
                found = _LINE.match(process.stdout.readline())
                assert found is not None
                ports[found[1]] = int(found[2])
            yield ports, process
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def finished(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)


def test_each_role_has_its_own_port_and_nothing_else() -> None:
    any_port = "127.0.0.1:0"
    with (
        daemon("--monitor", any_port, roles=1) as (first, _),
        daemon("--metrics", any_port, roles=1) as (second, _),
    ):
        base = f"http://127.0.0.1:{second['metrics']}"
        assert "node_load1 " in requests.get(f"{base}/metrics", timeout=60).text
        assert requests.get(f"{base}/monitor", timeout=60).status_code == 404
        assert requests.post(f"{base}/register", timeout=60).status_code == 404
        assert requests.get(f"http://127.0.0.1:{first['monitor']}/metrics", timeout=60).status_code == 404


def test_one_port_serves_all_and_agents_are_told_the_metrics_port() -> None:
    address = "127.0.0.1:0"
    agent = RawAgent(A)
    with (
        daemon("--monitor", address, "--informant", address, "--metrics", address, roles=3) as (ports, _),
        RawPeer(agent) as peer,
    ):
        assert len(set(ports.values())) == 1
        port = ports["monitor"]
        body = {
            "agentID": A,
            "agentServeAddr": f"127.0.0.1:{peer.port}",
            "minProtoVersion": 1,
            "maxProtoVersion": 1,
        }
        answer = requests.post(f"http://127.0.0.1:{port}/register", json=body, timeout=60)
        assert answer.json()["metricsMethod"] == {"prometheus": {"port": port}}
        dialled = websocket.create_connection(f"ws://127.0.0.1:{port}/monitor", timeout=60)
        dialled.send('{"min": 1, "max": 1}')
        assert json.loads(dialled.recv()) == {"version": 1}
        dialled.close()


def test_an_open_monitor_connection_does_not_hold_up_the_end() -> None:
    with daemon("--monitor", "127.0.0.1:0", roles=1) as (ports, process):
        dialled = websocket.create_connection(f"ws://127.0.0.1:{ports['monitor']}/monitor", timeout=60)
        process.send_signal(signal.SIGTERM)
        opcode, data = dialled.recv_data()
        assert (opcode, int.from_bytes(data[:2], "big")) == (websocket.ABNF.OPCODE_CLOSE, 1001)


@pytest.mark.skipif(not (CPUS / "present").exists(), reason="this machine shows no CPUs in /sys")
def test_cpus_are_served_with_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    words = ("--metrics", "127.0.0.1:0", "--cpus", "--token-file", str(token))
    with daemon(*words, roles=1) as (ports, _):
        url = f"http://127.0.0.1:{ports['metrics']}/cpus"
        assert requests.get(url, timeout=60).status_code == 401
        count = requests.get(url, headers={"Authorization": "Bearer s3cret"}, timeout=60).json()
        assert 1 <= count["online"] <= count["present"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--monitor", "nowhere"),
        ("--monitor", "127.0.0.1:0", "--cpus"),
        ("--monitor", "127.0.0.1:0", "--allow", "x"),
    ],
)
def test_wrong_usage_is_status_2_with_the_reason_at_the_end(words: tuple[str, ...]) -> None:
    done = finished(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("vmscaler guest")


def test_a_cgroup_that_is_not_there_is_one_line_and_status_1() -> None:
    done = finished("--monitor", "127.0.0.1:0", "--cgroup", "no/such/group")
    assert done.returncode == 1
    assert "no cgroup 'no/such/group'" in done.stderr.splitlines()[-1]


def test_an_address_in_use_is_one_line_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = finished("--metrics", "127.0.0.1:0", "--monitor", address)
    assert done.returncode == 1
    assert "address already in use" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [(), ("status",)])
def test_the_guests_own_script_knows_guest_alone(words: tuple[str, ...]) -> None:
    script = (
        "import sys; from app.guest.main import console; sys.argv = ['vmscaler', *sys.argv[1:]]; console()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    helped = subprocess.run(
        [sys.executable, "-c", script, "guest", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert helped.returncode == 0


def test_the_daemon_needs_no_more_than_h11_and_wsproto() -> None:
    script = (
        "import sys, app.guest.main; "
        "import sysconfig; site = sysconfig.get_path('purelib'); "
        "print(sorted({n.partition('.')[0] for n, m in sys.modules.items() "
        "if site in (getattr(m, '__file__', None) or '')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(json.loads(done.stdout.replace("'", '"'))) - {
        "_virtualenv",
        "_distutils_hack",
    } == {"h11", "wsproto"}


def test_a_lock_that_is_stuck_ends_the_process_with_a_clear_message() -> None:
    script = (
        "import threading; from app.guest.watchdog import Watchdog; lock = threading.Lock(); lock.acquire(); "
        "Watchdog(lock, 'the agent set', every_s=0.1).start(); threading.Event().wait(60)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 70
    assert done.stderr == (
        "vmscaler guest: the lock of the agent set could not be had within 0.25 s: ending\n"
    )
