"""Everything around a worker for `tests.bench.upscales`: VMs, platform and scheduler, in one process.

Half of the VMs are busy with what they have; the others want to shrink, which their monitors deny. Each asks
for memory once: the busy ones some time after connecting, the others in the middle of the denial's cooldown.
What passes from there to the scheduler's being asked for more is measured here, by one clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

from app.guest.http_messages import Conversation, Request, Response, Upgrade, json_response
from app.guest.server import Limits, Server
from app.protocols.monitor_guest import (
    CloseAgent,
    DownscaleAsked,
    GuestConnection,
    SendToAgent,
    UpscaleGranted,
)

GIB = 1 << 30
FIRST = {"cpu_m": 1000, "mem": 4}
BUSY_LOAD, IDLE_LOAD = 0.8, 0.05
AFTER_DENIAL_S = 1.5
"""The cooldown is five seconds."""
AFTER_CONNECTING_S = 8.0
APART_S = 0.5
"""Between two requests of busy VMs: what is measured is one request, not a queue of them."""


@dataclass
class Vm:
    """One VM.

    Attributes:
        asked_at: when it asked for memory; `reached_s`: how long that took to get to the scheduler.
    """

    name: str
    is_busy: bool
    port: int = 0
    use: dict[str, int] = field(default_factory=lambda: dict(FIRST))
    asked_at: float | None = None
    reached_s: float | None = None
    version: int = 1
    first_s: float = AFTER_CONNECTING_S

    def facts(self) -> dict[str, object]:
        """As the platform tells it."""
        here = {"host": "127.0.0.1", "port": self.port}
        return {
            "namespace": "bench",
            "name": self.name,
            "uid": self.name,
            "node": "n",
            "mode": "scale",
            "min": {"cpu_m": 250, "mem": 1},
            "max": {"cpu_m": 8000, "mem": 32},
            "use": self.use,
            "observed": self.use,
            "slot_bytes": GIB,
            "monitor": "required",
            "metrics": here,
            "monitor_address": here,
        }

    async def handle(self, request: Request) -> Response | Upgrade:
        """Its metrics page and its monitor."""
        if request.path == "/monitor":
            return Upgrade(self._converse)
        # Once it has been heard it is content with what it has got, and disturbs the others no more.
        is_content = self.is_busy or self.reached_s is not None
        load = BUSY_LOAD * self.use["cpu_m"] / 1000 if is_content else IDLE_LOAD
        page = (
            f"node_load1 {load}\nnode_load5 {load}\n"
            f"node_memory_MemTotal_bytes {4 * GIB}\nnode_memory_MemAvailable_bytes {3.5 * GIB}\n"
        )
        return Response(200, page.encode(), "text/plain")

    async def _converse(self, conversation: Conversation) -> None:
        connection = GuestConnection()
        if self.is_busy:
            asyncio.get_running_loop().call_later(self.first_s, self._ask, conversation, connection)
        while True:
            message = await conversation.receive()
            data = message if isinstance(message, bytes) else message.encode()
            for effect in connection.receive(data):
                match effect:
                    case SendToAgent(answer):
                        await conversation.send(answer.decode())
                    case CloseAgent(code, problem):
                        return await conversation.close(code, problem)
                    case UpscaleGranted(message_id):
                        await conversation.send(connection.confirm_upscale(message_id).decode())
                    case DownscaleAsked(message_id):
                        no = connection.answer_downscale(message_id, is_allowed=False, status="no")
                        await conversation.send(no.decode())
                        loop = asyncio.get_running_loop()
                        loop.call_later(AFTER_DENIAL_S, self._ask, conversation, connection)

    def _ask(self, conversation: Conversation, connection: GuestConnection) -> None:
        if self.asked_at is None:
            self.asked_at = time.monotonic()
            self._sending = asyncio.ensure_future(conversation.send(connection.request_upscale().decode()))


class World:
    """The platform's control interface, and the scheduler, at one address."""

    def __init__(self, vms: list[Vm]) -> None:
        self._vms = {vm.name: vm for vm in vms}
        self._version = 1
        self._change = asyncio.Condition()

    async def handle(self, request: Request) -> Response | Upgrade:
        """Answer the worker."""
        parts = [part for part in request.path.split("/") if part]
        if not parts:
            return self._permit(json.loads(request.body))
        if len(parts) == 2:
            return await self._changes(request.parameters())
        vm = self._vms[parts[3]]
        if request.method == "PUT":
            asked = json.loads(request.body)
            vm.use = {"cpu_m": asked["cpu_m"], "mem": asked["mem"]}
            self._version += 1
            vm.version = self._version
            async with self._change:
                self._change.notify_all()
        return json_response({"use": vm.use, "observed": vm.use})

    async def _changes(self, asked: dict[str, str]) -> Response:
        since = int(asked.get("since") or 0)
        if since >= self._version:
            async with self._change:
                try:
                    await asyncio.wait_for(self._change.wait(), min(float(asked["wait"]), 20.0))
                except TimeoutError:
                    pass
        changed = [vm.facts() for vm in self._vms.values() if vm.version > since]
        return json_response({"cursor": str(self._version), "full": not since, "vms": changed, "removed": []})

    def _permit(self, asked: dict[str, dict[str, object]]) -> Response:
        now, vm = time.monotonic(), self._vms[str(asked["pod"]["name"])]
        mem = asked["resources"]["mem"]
        if vm.asked_at is not None and vm.reached_s is None and isinstance(mem, int) and mem > FIRST["mem"]:
            vm.reached_s = now - vm.asked_at
        return json_response({"permit": asked["resources"], "resourceUnit": {"vCPUs": "250m", "mem": 1}})


async def main(count: int, seconds: float) -> None:
    """Serve until all have been heard or the time is over; print where, and then what was measured."""
    vms = [
        Vm(f"vm-{index}", is_busy=index % 2 == 0, first_s=AFTER_CONNECTING_S + index // 2 * APART_S)
        for index in range(count)
    ]
    world = World(vms)
    servers = [Server(world.handle, limits=Limits(connections=256)), *(Server(vm.handle) for vm in vms)]
    for vm, server in zip(vms, servers[1:], strict=True):
        _, vm.port = await server.start("127.0.0.1", 0)
    _, port = await servers[0].start("127.0.0.1", 0)
    print(port, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(vm.reached_s is None for vm in vms):
        await asyncio.sleep(0.1)
    found = {
        name: [vm.reached_s for vm in vms if vm.is_busy is is_busy and vm.reached_s is not None]
        for name, is_busy in (("idle", True), ("cooldown", False))
    }
    print(json.dumps(found), flush=True)
    await asyncio.gather(*(server.close(0.1) for server in servers))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
