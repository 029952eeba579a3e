"""A worker's agents on real ports of loopback, for tests whose process is not patched for gevent."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable

import gevent

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.adapters.informants_http import InformantsHttp
from app.ports.vm import Address
from app.protocols.agent_store import MemoryAgentStore
from app.protocols.informant_agent import AgentTimes
from app.services.informant_link import InformantPeers, InformantSettings
from app.services.informants import Informants
from app.web.agent_ports import AgentPorts
from app.web.protection import Protection

SLOW = AgentTimes(silence_s=600.0, resume_s=600.0, retry_s=0.05, retry_max_s=0.2)
"""Nothing is done for the mere lapse of time, but for refusals."""


class ThreadedClient:
    """`InformantsHttp` whose waits let greenlets run."""

    def __init__(self) -> None:
        self._client = InformantsHttp()
        self.requests: list[str] = []

    def request(
        self, informant: Address, method: str, path: str, body: bytes, *, timeout_s: float
    ) -> tuple[int, bytes]:
        self.requests.append(f"{method} {path}")
        pool = gevent.get_hub().threadpool
        answer: tuple[int, bytes] = pool.apply(
            self._client.request, (informant, method, path, body), {"timeout_s": timeout_s}
        )
        return answer

    def close(self) -> None:
        self._client.close()


class AgentSide:
    """One worker's `informants`; `close` it."""

    def __init__(
        self,
        times: AgentTimes = SLOW,
        *,
        ports: Iterable[int] = (),
        protection: Protection | None = None,
        suspend_limit_s: float = 60.0,
    ) -> None:
        self.client = ThreadedClient()
        concurrency, hosts = GreenConcurrency(), ("127.0.0.1", "127.0.0.1")
        self.ports = AgentPorts(concurrency, hosts, ports, protection or Protection(), wait_s=30.0)
        jitter = itertools.repeat(0.0)
        peers = InformantPeers(
            self.client,
            self.ports,
            SystemClock(),
            concurrency,
            lambda: str(uuid.uuid4()),
            lambda: next(jitter),
        )
        settings = InformantSettings(
            times, 30.0, suspend_wait_s=30.0, suspend_limit_s=suspend_limit_s, no_port_s=0.05
        )
        self.store = MemoryAgentStore()
        self.informants = Informants(peers, settings, "of the test", self.store)
        self._stop = concurrency.signal()
        self._job = concurrency.spawn("informants", lambda: self.informants.run(self._stop))

    def close(self) -> None:
        """Let everything go."""
        self._stop.set()
        self.informants.finish(30.0)
        self._job.cancel()
