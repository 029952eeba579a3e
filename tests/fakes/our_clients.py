"""Each client of ours as a function that asks one question, so that one table can try them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from app.adapters.client_tls import ClientTls
from app.adapters.informants_http import InformantsHttp
from app.adapters.metrics_http import MetricsPages
from app.adapters.monitor_ws import MonitorDialer
from app.adapters.platform_sim import SimPlatform
from app.adapters.scheduler_http import SchedulerHttp
from app.core.resources import resources
from app.errors import InvalidInput, PeerError, PeerRefused
from app.guest.agent_client import AgentCallFailed, AgentClient
from app.ports.peers import MonitorCallbacks, PermitQuestion, SchedulerInfo
from app.ports.store import FencingToken
from app.ports.vm import Address
from app.protocols.informant import AgentRequest, decode_agent_answer
from app.protocols.monitor_wire import HealthCheck
from tests.service_builders import a_virtual_machine


@dataclass(frozen=True)
class Reach:
    """Where a peer is, and how it is asked."""

    port: int
    tls: ClientTls | None = None
    bearer: str | None = None
    timeout_s: float = 30.0
    host: str = "127.0.0.1"

    @property
    def address(self) -> Address:
        """Of its server."""
        return Address(self.host, self.port)

    @property
    def url(self) -> str:
        """Of its server, for HTTP."""
        return f"http{'' if self.tls is None else 's'}://{self.host}:{self.port}"


Client = Callable[[Reach], object]
"""Asks once; raises PeerError."""

OpenClient = Callable[[Reach], AbstractContextManager[Client]]
"""A client for as long as the block runs; what says how it is let in stands in the first `Reach`."""


@contextmanager
def metrics(way: Reach) -> Iterator[Client]:
    """Asks for a page."""
    pages = MetricsPages(bearer=way.bearer, tls=way.tls)
    yield lambda reach: pages.fetch(reach.address, timeout_s=reach.timeout_s)
    pages.close()


@contextmanager
def monitor(way: Reach) -> Iterator[Client]:
    """Connects, and asks for a health check on that connection."""
    dialer = MonitorDialer(30, bearer=way.bearer, tls=way.tls)

    def ask(reach: Reach) -> object:
        callbacks = MonitorCallbacks(lambda: None, lambda: None, lambda reason: None)
        session = dialer.connect(reach.address, callbacks, timeout_s=reach.timeout_s)
        session.serve_in_background()
        try:
            return session.call(HealthCheck(), timeout_s=reach.timeout_s)
        finally:
            session.close()

    yield ask


@contextmanager
def scheduler(way: Reach) -> Iterator[Client]:
    """Asks for a permit."""
    client = SchedulerHttp(bearer=way.bearer, tls=way.tls)
    question = PermitQuestion(a_virtual_machine(), resources(250, 1), None, None, FencingToken(1))
    yield lambda reach: client.ask(SchedulerInfo("s", "u", reach.url), question, timeout_s=reach.timeout_s)
    client.close()


@contextmanager
def informant(way: Reach) -> Iterator[Client]:
    """Unregisters an agent that it does not know; another answer than to that is an error."""
    client = InformantsHttp(bearer=way.bearer, tls=way.tls)

    def ask(reach: Reach) -> object:
        status, body = client.request(
            reach.address, "DELETE", "/unregister", b"{}", timeout_s=reach.timeout_s
        )
        if status not in (200, 404):
            raise PeerRefused("informant", f"HTTP status {status}", code=status)
        return body

    yield ask
    client.close()


@contextmanager
def platform(way: Reach) -> Iterator[Client]:
    """Asks for the size of a VM."""
    made: dict[str, SimPlatform] = {}

    def ask(reach: Reach) -> object:
        if reach.url not in made:
            made[reach.url] = SimPlatform(reach.url, token=way.bearer, tls=way.tls)
        return made[reach.url].read_size(a_virtual_machine(), timeout_s=reach.timeout_s)

    yield ask
    for each in made.values():
        each.close()


@contextmanager
def agent(way: Reach) -> Iterator[Client]:
    """Asks, as an informant does, an agent who it is; the guest's client knows one kind of error."""
    with asyncio.Runner() as loop:
        made: dict[Reach, AgentClient] = {}

        async def call(reach: Reach) -> bytes:
            client = made.setdefault(reach, AgentClient(reach.host, reach.port))
            return await client.ask(AgentRequest.ID, b"", limit_s=reach.timeout_s)

        def ask(reach: Reach) -> object:
            try:
                return decode_agent_answer(loop.run(call(reach)))
            except (AgentCallFailed, InvalidInput) as err:
                raise PeerError("agent", str(err)) from err

        yield ask
        for client in made.values():
            client.close()
