"""What an agent's port costs a worker: a listening socket, then its informant's connection.

Run as `python -m tests.bench.agent_ports [PORTS]`. The informants' ends of the connections are in the same
process, so what a connection and a check cost is for both ends together.
"""

from __future__ import annotations

import gevent.monkey

gevent.monkey.patch_all()

import gc  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

from app.adapters.green import GreenConcurrency  # noqa: E402
from app.ports.informants import AgentAnswer  # noqa: E402
from app.ports.vm import Address  # noqa: E402
from app.web.agent_ports import AgentPort, AgentPorts  # noqa: E402
from app.web.protection import Protection  # noqa: E402

ROUNDS = 5
REQUEST = b"GET /id HTTP/1.1\r\nHost: x\r\n\r\n"


def measure_agent_ports(count: int) -> None:
    """Print memory and time of so many ports, then of a kept connection to each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * count + 512)), hard))
    ports = AgentPorts(GreenConcurrency(), ("127.0.0.1", "127.0.0.1"), [], Protection(), wait_s=15.0)
    before, begun = _resident_bytes(), time.perf_counter()
    servers = [_open(ports) for _ in range(count)]
    open_s = time.perf_counter() - begun
    idle = _resident_bytes()
    connections = [socket.create_connection(("127.0.0.1", _port(server))) for server in servers]
    _ask(connections)
    connected = _resident_bytes()
    begun = time.process_time()
    for _ in range(ROUNDS):
        _ask(connections)
    check_s = (time.process_time() - begun) / ROUNDS / count
    print(f"{count} agents' ports in one process")
    print(
        f"  open       {(idle - before) / count / 1024:5.1f} KiB each, {open_s / count * 1e6:.0f} us to open"
    )
    print(f"  connected  {(connected - before) / count / 1024:5.1f} KiB each, both ends")
    print(f"  a check    {check_s * 1e6:5.0f} us of CPU, both ends")


def _open(ports: AgentPorts) -> AgentPort:
    server = ports.open(Address("127.0.0.1", 1), lambda method, path, body: AgentAnswer(200, b"{}"))
    assert server is not None
    return server


def _port(server: AgentPort) -> int:
    return int(server.address.rpartition(":")[2])


def _ask(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.sendall(REQUEST)
        assert connection.recv(1024).startswith(b"HTTP/1.1 200")


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    measure_agent_ports(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
