"""All that listens in a benchmark's cluster, on one port: metrics pages, monitors, a scheduler.

`python -m tests.bench.neonvm_peers VMS` prints its port, and a line once so many hosts were polled. It takes
lines: `again` counts anew, `up` raises the load of VMs whose address ends in 1 to 12. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

from app.guest.http_messages import Request, Response, Upgrade
from app.guest.server import Limits, Server
from tests.bench.monitor_peer import converse

GIB = 1024**3
RAISED = frozenset(range(1, 13))
QUIET, BUSY = 0.9, 2.7


class Peers:
    """The handler, and what it has seen."""

    def __init__(self, vms: int) -> None:
        self._vms = vms
        self._polled: set[str] = set()
        self._is_told = False
        self.is_busy = False

    def take(self, line: str) -> None:
        """`again`: count the polled hosts anew; `up`: the load rises."""
        if line == "again":
            self._polled, self._is_told = set(), False
        else:
            self.is_busy = True

    async def handle(self, request: Request) -> Response | Upgrade:
        """One request of whatever kind."""
        if request.method == "POST":
            asked = json.loads(request.body)["resources"]
            answer = {"permit": asked, "resourceUnit": {"vCPUs": "250m", "mem": 1}}
            return Response(200, json.dumps(answer).encode())
        if request.path != "/metrics":
            return Upgrade(converse)
        host = request.headers.get("host", "").partition(":")[0]
        self._polled.add(host)
        if len(self._polled) == self._vms and not self._is_told:
            self._is_told = True
            print("all polled", flush=True)
        load = BUSY if self.is_busy and int(host.rpartition(".")[2]) in RAISED else QUIET
        page = f"node_load1 {load}\nnode_load5 {load}\n"
        page += f"node_memory_MemTotal_bytes {4 * GIB}\nnode_memory_MemAvailable_bytes {3.5 * GIB}\n"
        return Response(200, page.encode())


async def _serve(vms: int) -> None:
    peers = Peers(vms)
    server = Server(peers.handle, limits=Limits(connections=50_000, idle_s=600.0))
    _, port = await server.start("0.0.0.0", 0)
    print(port, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        while line := await asyncio.to_thread(sys.stdin.readline):
            peers.take(line.strip())
    await server.close(0.1)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
