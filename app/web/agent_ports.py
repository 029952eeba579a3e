"""A server for each agent, at a port of its own: what a VM's informant calls (`spec/informant.md`).

Only that informant's host may call, and none but the protocol's requests are answered. A listening port costs
a socket and its accept watcher; there is no thread and, while nobody is connected, no greenlet for it.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.errors import ConfigurationError, PeerUnreachable
from app.ports.informants import AgentHandler
from app.ports.runtime import Concurrency
from app.ports.vm import Address
from app.protocols.access import AllowedAddresses, parse_ip, parse_network
from app.protocols.informant import MAX_BODY_BYTES, AgentRequest
from app.web.protection import Protection
from app.web.replies import Reply, read_body, text_reply
from app.web.server import Limits, WebServer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

IDLE_S = 75.0
"""An informant keeps its connection and asks every 10 s; it may be slower than ours."""
CONNECTIONS = 16
"""At once, per agent; its informant needs one."""
LOOPBACK = (parse_network("127.0.0.0/8"), parse_network("::1"))
TRIES_AT_ONCE = 32
"""Ports that others have taken, tried before anything else may run."""


class AgentPorts:
    """Opens servers on the ports of a range, those that were closed longest ago first.

    Args:
        hosts: the one to listen on, and the one that informants are told to call.
        ports: to choose from; empty: any free port.
        protection: what else is asked of callers, beside being the VM's informant.
        wait_s: how long a request may take, a `/suspend` that waits for an effect included.
    """

    def __init__(
        self,
        concurrency: Concurrency,
        hosts: tuple[str, str],
        ports: Iterable[int],
        protection: Protection,
        *,
        wait_s: float,
    ) -> None:
        self._concurrency = concurrency
        self._host, told_host = hosts
        self._told_host = f"[{told_host}]" if ":" in told_host else told_host
        self._free = deque(ports)
        self._is_any = not self._free
        self._protection = protection
        self._limits = Limits(connections=CONNECTIONS, request_s=wait_s + 1.0, idle_s=IDLE_S)

    def open(self, informant: Address, handle: AgentHandler) -> AgentPort | None:
        """See `AgentServers.open`."""
        application = AgentApplication(_callers(informant), handle)
        if self._is_any:
            return self._try(application, 0)
        for tried in range(len(self._free)):
            port = self._free.popleft()
            server = self._try(application, port)
            if server is not None:
                return server
            self._free.append(port)
            if tried % TRIES_AT_ONCE == TRIES_AT_ONCE - 1:
                self._concurrency.sleep(0)
            if not self._free:
                break
        return None

    def end(self, server: WebServer) -> None:
        """Close a server in a job of its own, and take its port back."""
        self._concurrency.spawn(f"close agent's port {server.port}", lambda: self._end(server))

    def _end(self, server: WebServer) -> None:
        port = server.port
        server.stop(timeout_s=0.0)
        if not self._is_any:
            self._free.append(port)

    def _try(self, application: AgentApplication, port: int) -> AgentPort | None:
        server = WebServer(
            application.serve, self._host, port, limits=self._limits, protection=self._protection
        )
        try:
            server.start()
        except ConfigurationError as err:
            logger.debug("port not free", extra={"port": port, "reason": str(err)})
            return None
        return AgentPort(self, server, f"{self._told_host}:{server.port}")


class AgentPort:
    """One agent's server.

    Attributes:
        address: as the informant is told.
    """

    def __init__(self, ports: AgentPorts, server: WebServer, address: str) -> None:
        self._ports = ports
        self._server: WebServer | None = server
        self.address = address

    def close(self) -> None:
        """See `AgentServer.close`."""
        server, self._server = self._server, None
        if server is not None:
            self._ports.end(server)


class AgentApplication:
    """Answers the requests of one agent's informant.

    Args:
        callers: the informant's addresses; others get 403.
    """

    def __init__(self, callers: AllowedAddresses, handle: AgentHandler) -> None:
        self._callers = callers
        self._handle = handle

    def serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """One request (WSGI)."""
        return self._answer(environ).send(start_response)

    def _answer(self, environ: WSGIEnvironment) -> Reply:
        if not self._callers.has(environ.get("REMOTE_ADDR", "")):
            return text_reply(HTTPStatus.FORBIDDEN, "only the VM's own informant may call")
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO") or "/"
        body = read_body(environ, MAX_BODY_BYTES)
        if body is None:
            problem = f"the body is longer than {MAX_BODY_BYTES} bytes"
            return replace(text_reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem), is_last=True)
        answer = self._handle(method, path, body)
        status = HTTPStatus(answer.status)
        if status is HTTPStatus.OK:
            return Reply(status, answer.body, "application/json")
        allow = next((each.method for each in AgentRequest if each.path == path), "")
        return Reply(status, answer.body, allow=allow if status is HTTPStatus.METHOD_NOT_ALLOWED else "")


def _callers(informant: Address) -> AllowedAddresses:
    """The informant's own addresses.

    Raises:
        PeerUnreachable: its name has no address.
    """
    if informant.host.lower() == "localhost":
        return AllowedAddresses(LOOPBACK)
    address = parse_ip(informant.host)
    texts = [str(address)] if address is not None else _addresses_of(informant)
    return AllowedAddresses(tuple(parse_network(text) for text in texts))


def _addresses_of(informant: Address) -> list[str]:
    try:
        found = socket.getaddrinfo(informant.host, informant.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:
        raise PeerUnreachable(f"informant {informant.host}", "its name has no address") from err
    return [str(entry[4][0]).partition("%")[0] for entry in found]
