"""Informants and agents' servers in memory, for tests of a worker's services."""

from __future__ import annotations

from dataclasses import dataclass, field

import gevent
import gevent.event

from app.errors import PeerUnreachable
from app.ports.informants import AgentAnswer, AgentHandler
from app.ports.vm import Address
from app.protocols.informant import (
    AgentDesc,
    AgentRequest,
    decode_agent_desc,
    encode_expected_id,
    encode_registered,
    encode_unregistered,
)


@dataclass
class FakeServer:
    """An agent's server."""

    address: str
    handle: AgentHandler
    is_open: bool = True

    def close(self) -> None:
        self.is_open = False


@dataclass
class FakeInformants:
    """`InformantClient` and `AgentServers`: every VM's informant, as far as an agent sees it.

    Attributes:
        status: of the answers to `/register`; None: no connection.
        held: while it is set, requests wait for it.
        is_resuming: whether a registration is followed by `/resume`.
        answer: to `/register`, in place of the right one.
        is_named: whether the informants' names have addresses.
        free: ports that may still be taken.
        log: requests that came in, in order.
    """

    status: int | None = 200
    held: gevent.event.Event | None = None
    is_resuming: bool = True
    answer: bytes | None = None
    is_named: bool = True
    free: int = 1_000
    log: list[str] = field(default_factory=list)
    servers: list[FakeServer] = field(default_factory=list)
    registered: dict[str, AgentDesc] = field(default_factory=dict)

    def open(self, informant: Address, handle: AgentHandler) -> FakeServer | None:
        if not self.is_named:
            raise PeerUnreachable("informant", "its name has no address")
        if self.free == 0:
            return None
        self.free -= 1
        self.servers.append(FakeServer(f"10.0.0.1:{20_000 + len(self.servers)}", handle))
        return self.servers[-1]

    def request(
        self, informant: Address, method: str, path: str, body: bytes, *, timeout_s: float
    ) -> tuple[int, bytes]:
        self.log.append(f"{path} begins")
        gevent.sleep(0)
        if self.held is not None:
            self.held.wait(timeout_s)
        if self.status is None:
            self.log.append(f"{path} fails")
            raise PeerUnreachable("informant", "no connection")
        self.log.append(path)
        desc = decode_agent_desc(body)
        if path == "/unregister":
            self.registered.pop(desc.agent_id, None)
            return 200, encode_unregistered(was_active=True)
        if self.status == 200:
            self.registered[desc.agent_id] = desc
            if self.is_resuming:
                self.ask(desc, AgentRequest.RESUME)
        return self.status, encode_registered(1, 9100) if self.answer is None else self.answer

    def close(self) -> None:
        self.log.append("closed")

    def ask(self, desc: AgentDesc, request: AgentRequest) -> AgentAnswer:
        """What an agent answers."""
        server = next(each for each in self.servers if each.address == desc.address)
        if not server.is_open:
            raise PeerUnreachable("agent", "no connection")
        return server.handle(request.method, request.path, encode_expected_id(desc.agent_id))

    @property
    def newest(self) -> AgentDesc:
        """The agent that registered last."""
        return next(reversed(self.registered.values()))
