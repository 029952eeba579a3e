"""The informant's endpoints over HTTP (`spec/informant.md`).

Whether the caller may call, and the token, have been checked before (`app.guest.access`); bodies are bounded
by the server.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from app.errors import InvalidInput
from app.guest.hooks import HookFailed
from app.guest.http_messages import Request, Response, text_response
from app.guest.informant_agents import InformantAgents
from app.protocols.access import AllowedAddresses, is_same_host
from app.protocols.informant import (
    decode_agent_desc,
    decode_resources,
    encode_downscale_result,
    encode_registered,
    encode_unregistered,
    parse_address,
)
from app.protocols.informant_set import Refusal
from app.protocols.memory_policy import DownscaleVerdict

logger = logging.getLogger(__name__)

_BAD_JSON = text_response("bad JSON", 400)


class Workload(Protocol):
    """Who judges sizes: the guest's `app.guest.workload`, or a simulated VM."""

    async def try_downscale(self, cpu: float, mem: int) -> DownscaleVerdict:
        """Whether the guest agrees to go down to this size."""
        ...

    async def notify_upscale(self, cpu: float, mem: int) -> None:
        """The guest has this size now, or is about to."""
        ...


class Informant:
    """The endpoints of one VM.

    Args:
        metrics_port: says what agents are told in the answer to `/register`.
        agent_addresses: beside the caller's own, where agents may be called.
    """

    def __init__(
        self,
        agents: InformantAgents,
        workload: Workload,
        *,
        metrics_port: Callable[[], int],
        agent_addresses: AllowedAddresses | None = None,
    ) -> None:
        self._agents = agents
        self._workload = workload
        self._metrics_port = metrics_port
        self._agent_addresses = agent_addresses or AllowedAddresses()
        self._endpoints: dict[str, tuple[str, Callable[[Request], Awaitable[Response]]]] = {
            "/register": ("POST", self._register),
            "/unregister": ("DELETE", self._unregister),
            "/downscale": ("PUT", self._downscale),
            "/upscale": ("PUT", self._upscale),
        }

    def serves(self, path: str) -> bool:
        """Whether the path is one of the protocol's."""
        return path in self._endpoints

    async def handle(self, request: Request) -> Response:
        """Answer a request to a path that `serves` knows."""
        method, endpoint = self._endpoints[request.path]
        if request.method != method:
            return Response(405, f"{method} only\n".encode(), headers=(("Allow", method),))
        try:
            return await endpoint(request)
        except InvalidInput as err:
            logger.debug("a request can't be read", extra={"path": request.path, "problem": str(err)})
            return _BAD_JSON
        except HookFailed as err:
            logger.warning("a hook failed", extra={"problem": str(err)})
            return text_response(str(err), 500)

    async def _register(self, request: Request) -> Response:
        desc = decode_agent_desc(request.body)
        outcome = await self._agents.register_new_agent(
            desc, caller=request.peer, is_allowed=self._may_be_called(request.peer, desc.address)
        )
        if isinstance(outcome, Refusal):
            return _refused(outcome)
        logger.info("an agent is registered", extra={"agent": desc.agent_id, "address": desc.address})
        return _json(encode_registered(outcome, self._metrics_port()))

    async def _unregister(self, request: Request) -> Response:
        desc = decode_agent_desc(request.body)
        outcome = self._agents.unregister(desc, is_allowed=self._may_be_called(request.peer, desc.address))
        return (
            _refused(outcome)
            if isinstance(outcome, Refusal)
            else _json(encode_unregistered(was_active=outcome))
        )

    async def _downscale(self, request: Request) -> Response:
        size = decode_resources(request.body)
        if not self._is_agents_host(request.peer):
            return text_response("no agent is registered from this address", 403)
        verdict = await self._workload.try_downscale(size.milli_cpu / 1000, size.mem)
        if verdict.is_failure:
            return text_response(verdict.status, 500)
        return _json(encode_downscale_result(is_allowed=verdict.is_allowed, status=verdict.status))

    async def _upscale(self, request: Request) -> Response:
        size = decode_resources(request.body)
        if not self._is_agents_host(request.peer):
            return text_response("no agent is registered from this address", 403)
        await self._workload.notify_upscale(size.milli_cpu / 1000, size.mem)
        return _json(b"{}")

    def _may_be_called(self, caller: str, address: str) -> bool:
        """Whether that caller may have us call that address: its own, or one that is allowed."""
        try:
            host, _ = parse_address(address)
        except InvalidInput:
            return False
        return is_same_host(caller, host) or self._agent_addresses.has(host)

    def _is_agents_host(self, caller: str) -> bool:
        """Whether a registered agent lives there: it came from there, or is called there."""
        return any(
            is_same_host(caller, agent.caller) or is_same_host(caller, parse_address(agent.desc.address)[0])
            for agent in self._agents.registered
        )


def _refused(refusal: Refusal) -> Response:
    return text_response(refusal.text, refusal.status)


def _json(body: bytes) -> Response:
    return Response(200, body, "application/json")
