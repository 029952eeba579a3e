"""A guest daemon's parts on a loop of its own in a thread, with memory that a test sets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from app.guest.access import Access
from app.guest.cpus import CpuSwitch
from app.guest.hooks import Hook
from app.guest.informant import Informant
from app.guest.informant_agents import InformantAgents
from app.guest.monitor import Monitor
from app.guest.routes import Routes
from app.guest.server import Limits, Server
from app.guest.workload import Workload
from app.protocols.access import AllowedAddresses
from app.protocols.informant import AgentAnswer, AgentDesc, encode_agent_answer
from app.protocols.informant_set import SetSettings
from tests.fakes.raw_peer import read_exactly, read_head

T = TypeVar("T")
GIB = 1024**3
PATIENT = SetSettings(check_after_s=600, id_limit_s=10, suspend_limit_s=10, resume_limit_s=10)
"""Limits that a busy machine does not break."""


class GuestOnLoop:
    """Everything on one port of loopback; `close` it."""

    def __init__(
        self,
        settings: SetSettings = PATIENT,
        *,
        access: Access | None = None,
        protected: frozenset[str] = frozenset(),
        agent_addresses: AllowedAddresses | None = None,
        hooks: tuple[Hook | None, Hook | None] = (None, None),
        cpus: CpuSwitch | None = None,
        tls: ssl.SSLContext | None = None,
        at: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self.used_bytes = GIB
        self.is_readable = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="guest-under-test")
        self._thread.start()
        self.workload = Workload(8 * GIB, self._read, upscale_hook=hooks[0], downscale_hook=hooks[1])
        self.agents = InformantAgents(settings)
        self.monitor = Monitor(self.workload)
        informant = Informant(
            self.agents, self.workload, metrics_port=lambda: 9100, agent_addresses=agent_addresses
        )
        routes = Routes(access or Access(), protected, self.monitor, informant, cpus, has_metrics=True)
        self.server = Server(routes.handle, limits=Limits(respond_s=60), tls=tls)
        self.port = self.run(self.server.start(*at))[1]
        self.url = f"http{'' if tls is None else 's'}://{at[0]}:{self.port}"
        self._sampling = asyncio.run_coroutine_threadsafe(
            self.workload.sample_forever(self.monitor.ask_for_memory), self._loop
        )

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the guest's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        """End the parts and the thread."""
        self._sampling.cancel()
        self.run(self.agents.stop())
        self.run(self.server.close(0.2))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def _read(self) -> int:
        if not self.is_readable:
            raise OSError("the memory can't be read, on purpose")
        return self.used_bytes


class RawAgent:
    """An agent whose every answer a test decides; a handler for `RawPeer`.

    Attributes:
        seen: the paths that were asked for, in order.
    """

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.seen: list[str] = []
        self.bodies: list[bytes] = []
        self.held: dict[str, threading.Event] = {}
        self._numbers = 0
        self._lock = threading.Lock()

    def hold(self, path: str) -> threading.Event:
        """Answer this path only once the event is set."""
        self.held[path] = threading.Event()
        return self.held[path]

    def desc(self, port: int) -> AgentDesc:
        """How it describes itself."""
        return AgentDesc(self.agent_id, f"127.0.0.1:{port}", 1, 1)

    def answer(self) -> bytes:
        """The next answer, as a whole HTTP response."""
        with self._lock:
            self._numbers += 1
            body = encode_agent_answer(AgentAnswer(self.agent_id, self._numbers))
        return response(body)

    def __call__(self, connection: socket.socket, number: int) -> None:
        while head := read_head(connection):
            self.note(connection, head)
            path = self.seen[-1]
            if path in self.held:
                self.held[path].wait(60)
            connection.sendall(self.answer())

    def note(self, connection: socket.socket, head: bytes) -> None:
        """Remember a request and read its body."""
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        self.bodies.append(read_exactly(connection, length))
        self.seen.append(head.split(b" ")[1].decode())


def response(body: bytes, status: str = "200 OK", more: bytes = b"") -> bytes:
    """An HTTP response with its length."""
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
        + more
        + b"\r\n"
        + body
    )
