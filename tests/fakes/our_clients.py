"""Each client of ours as one function that asks one question, so that one table can try them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from app.adapters.client_tls import ClientTls
from app.adapters.informant_http import InformantHttp
from app.adapters.metrics_http import MetricsPages
from app.adapters.monitor_ws import MonitorDialer
from app.adapters.platform_sim import SimPlatform
from app.adapters.scheduler_http import SchedulerHttp
from app.core.resources import resources
from app.errors import PeerError, PeerRefused
from app.guest.agent_client import AgentCallFailed, AgentClient
from app.ports.peers import MonitorCallbacks, PermitQuestion, SchedulerInfo
from app.ports.store import FencingToken
from app.ports.vm import Address
from app.protocols.informant import AgentRequest, decode_agent_answer
from app.protocols.monitor_wire import HealthCheck
from tests.service_builders import a_virtual_machine

AGENT_ID = "aaaaaaaa-0000-4000-8000-000000000000"


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
"""Asks once, raises PeerError."""


def ask_metrics(reach: Reach) -> bytes:
    """A page."""
    pages = MetricsPages(bearer=reach.bearer, tls=reach.tls)
    try:
        return pages.fetch(reach.address, timeout_s=reach.timeout_s)
    finally:
        pages.close()


def ask_monitor(reach: Reach) -> object:
    """A connection, and a health check on it."""
    callbacks = MonitorCallbacks(lambda: None, lambda: None, lambda reason: None)
    dialer = MonitorDialer(30, bearer=reach.bearer, tls=reach.tls)
    session = dialer.connect(reach.address, callbacks, timeout_s=reach.timeout_s)
    session.serve_in_background()
    try:
        return session.call(HealthCheck(), timeout_s=reach.timeout_s)
    finally:
        session.close()


def ask_scheduler(reach: Reach) -> object:
    """A permit."""
    client = SchedulerHttp(bearer=reach.bearer, tls=reach.tls)
    question = PermitQuestion(a_virtual_machine(), resources(250, 1), None, None, FencingToken(1))
    try:
        return client.ask(SchedulerInfo("s", "u", reach.url), question, timeout_s=reach.timeout_s)
    finally:
        client.close()


def ask_informant(reach: Reach) -> bytes:
    """Whatever it says to an unknown agent, as long as it answers; its 401 and 403 are errors."""
    client = InformantHttp(reach.url, bearer=reach.bearer, tls=reach.tls)
    try:
        status, body = client.request("DELETE", "/unregister", b"{}", timeout_s=reach.timeout_s)
    finally:
        client.close()
    if status not in (200, 404):
        raise PeerRefused("informant", f"HTTP status {status}", code=status)
    return body


def ask_platform(reach: Reach) -> object:
    """The size of a VM."""
    platform = SimPlatform(reach.url, token=reach.bearer, tls=reach.tls)
    try:
        return platform.read_size(a_virtual_machine(), timeout_s=reach.timeout_s)
    finally:
        platform.close()


def ask_agent(reach: Reach) -> object:
    """What an informant asks of an agent; the guest's client knows one kind of error."""

    async def ask() -> bytes:
        client = AgentClient(reach.host, reach.port)
        try:
            return await client.ask(AgentRequest.ID, b"", limit_s=reach.timeout_s)
        finally:
            client.close()

    try:
        return decode_agent_answer(asyncio.run(ask()))
    except AgentCallFailed as err:
        raise PeerError("agent", str(err)) from err
