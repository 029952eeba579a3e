"""The server of one simulated VM: metrics page, vm-monitor and informant on one loopback port."""

from __future__ import annotations

import asyncio
import ssl

from app.fleet.fleet import Fleet
from app.fleet.node_page import CONTENT_TYPE, NodePage, broken_kind, broken_page
from app.fleet.simulated_vm import SimulatedVm
from app.fleet.vm_informant import VmInformant
from app.fleet.vm_monitor import VmMonitor
from app.guest.access import Access
from app.guest.http_messages import Request, Response, Upgrade, text_response
from app.guest.server import Limits, Server
from app.ports.sender import HOLDER_HEADER, readable
from app.simulation.faults import Fault

SLOW_PAGE_S = 30.0
"""How late the page of a VM with the fault slow-page is."""
_LIMITS = Limits(connections=16)


class VmServer:
    """Answers for one VM; `start` once, `close` once.

    Args:
        access: who may call; a token there is asked of everyone.
        tls: what is spoken; None: plain HTTP.
    """

    def __init__(
        self, fleet: Fleet, vm: SimulatedVm, page: NodePage, access: Access, tls: ssl.SSLContext | None
    ) -> None:
        self._fleet = fleet
        self._vm = vm
        self._page = page
        self._access = access
        self._server = Server(self._handle, limits=_LIMITS, tls=tls)
        self._monitor = VmMonitor(fleet, vm)
        self._informant = VmInformant(fleet, vm)

    async def start(self, host: str) -> None:
        """Listen on the port that the VM had before, or on a free one where that is taken.

        Raises:
            OSError: no port can be had.
        """
        try:
            _, port = await self._server.start(host, self._vm.port)
        except OSError:
            if self._vm.port == 0:
                raise
            _, port = await self._server.start(host, 0)
        self._fleet.listening(self._vm, port)

    async def close(self) -> None:
        """End everything at once, as a VM that is switched off does."""
        await self._informant.stop()
        await self._server.close(0.2)

    async def _handle(self, request: Request) -> Response | Upgrade:
        refusal = self._access.refusal(request, is_protected=True)
        if refusal is not None:
            return refusal
        if request.path == "/monitor":
            holder = _holder(request)
            return Upgrade(lambda conversation: self._monitor.converse(conversation, holder))
        if request.path == "/metrics" and request.method in ("GET", "HEAD"):
            return await self._metrics(_holder(request))
        if self._informant.serves(request.path):
            return await self._informant.handle(request)
        return text_response("not found", 404)

    async def _metrics(self, holder: str) -> Response:
        self._fleet.note_contact(self._vm, "polled", holder)
        if self._fleet.is_on(Fault.SLOW_PAGE, self._vm):
            await asyncio.sleep(SLOW_PAGE_S)
        model = self._fleet.present(self._vm).model
        page = self._page.render(model)
        if self._fleet.is_on(Fault.BROKEN_PAGE, self._vm):
            kind = broken_kind(self._fleet.faults.seed, self._vm.key, model.age_s)
            page = broken_page(page, kind)
        return Response(200, page, CONTENT_TYPE)


def _holder(request: Request) -> str:
    """Who asks, as far as they say."""
    return readable(request.headers.get(HOLDER_HEADER.lower()))
