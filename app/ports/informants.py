"""Ports to the informants in the VMs: asking them, and being asked by them (`spec/informant.md`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.ports.vm import Address


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent answers its informant: an HTTP status, and JSON for a 200, else text."""

    status: int
    body: bytes


AgentHandler = Callable[[str, str, bytes], AgentAnswer]
"""Method, path and body of an informant's request; may wait while an effect is in flight."""


class AgentServer(Protocol):
    """One agent's server, at a port of its own."""

    @property
    def address(self) -> str:
        """`host:port`, as the informant is told."""
        ...

    def close(self) -> None:
        """Stop listening, end what is open; does not wait. A second time does nothing."""
        ...


class AgentServers(Protocol):
    """Gives each agent a server."""

    def open(self, informant: Address, handle: AgentHandler) -> AgentServer | None:
        """Listen for this informant alone; None where no port is free.

        Raises:
            PeerUnreachable: the informant's name has no address, so nobody could be let in.
        """
        ...


class InformantClient(Protocol):
    """Asks informants."""

    def request(
        self, informant: Address, method: str, path: str, body: bytes, *, timeout_s: float
    ) -> tuple[int, bytes]:
        """One request; status and body of the answer, whatever the status is. Raises PeerError."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
