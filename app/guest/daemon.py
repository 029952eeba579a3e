"""`vmscaler guest run`: the daemon in a VM, put together and run until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from app.guest.access import Access
from app.guest.cpus import CpuSwitch
from app.guest.informant import Informant
from app.guest.informant_agents import InformantAgents
from app.guest.load import LoadRunner
from app.guest.memory_lock import lock_memory
from app.guest.memory_use import memory_reader
from app.guest.monitor import Monitor
from app.guest.oom import OomWatch
from app.guest.options import Address, RunOptions
from app.guest.own_metrics import OwnMetrics
from app.guest.procfs import read_memory
from app.guest.routes import ROLES, Routes
from app.guest.server import Limits, Server
from app.guest.watchdog import Watchdog
from app.guest.workload import Workload

logger = logging.getLogger(__name__)

_LIMITS = Limits(respond_s=30.0)
_SCHEMES = {"monitor": ("ws", "/monitor"), "informant": ("http", ""), "metrics": ("http", "/metrics")}


async def run_daemon(options: RunOptions) -> None:
    """Serve until SIGTERM or SIGINT; each role's address is printed once it listens.

    Raises:
        OSError: an address can't be had, there is no such cgroup, or /proc can't be read.
        ValueError: /proc is not what a Linux kernel writes.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if problem := lock_memory():
        logger.warning("memory is not locked", extra={"problem": problem})
    daemon = Daemon(options)
    try:
        for line in await daemon.start():
            with contextlib.suppress(BrokenPipeError):
                print(line, flush=True)  # noqa: T201
        await daemon.wait(stop)
    finally:
        await daemon.stop()


class Daemon:
    """What runs in one VM; `start` once, `stop` once."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._workload = Workload(
            read_memory()["MemTotal"],
            memory_reader(options.cgroup),
            upscale_hook=options.upscale_hook,
            downscale_hook=options.downscale_hook,
        )
        self._monitor = Monitor(self._workload)
        self._agents = InformantAgents(options.agents)
        self._watchdog = Watchdog(
            self._agents.lock,
            "the agent set",
            limit_s=options.watchdog_limit_s,
            every_s=options.watchdog_every_s,
        )
        self._cpus = CpuSwitch() if options.has_cpus else None
        self._load = LoadRunner() if options.has_load else None
        self._own_metrics = OwnMetrics(self._monitor, self._agents, OomWatch())
        self._informant = Informant(
            self._agents,
            self._workload,
            metrics_port=lambda: self._metrics_port,
            agent_addresses=options.agent_addresses,
        )
        self._metrics_port = options.exporter_port
        self._servers: list[Server] = []
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> list[str]:
        """Listen on all addresses: a line for each role, with the address that was taken.

        Raises:
            OSError: an address can't be had; `stop` ends what has been started.
        """
        taken: dict[Address, Address] = {}
        for address in dict.fromkeys(self._options.addresses.values()):
            taken[address] = await self._listen(address)
        if "metrics" in self._options.addresses:
            self._metrics_port = taken[self._options.addresses["metrics"]][1]
        self._watchdog.start()
        self._sampling = asyncio.create_task(
            self._workload.sample_forever(self._monitor.ask_for_memory), name="memory-samples"
        )
        return [
            self._line(role, *taken[self._options.addresses[role]])
            for role in ROLES
            if role in self._options.addresses
        ]

    async def wait(self, stop: asyncio.Event) -> None:
        """Until asked to stop, or the sampling has failed: its error is raised then."""
        waiting = asyncio.create_task(stop.wait(), name="stop")
        tasks = {waiting} if self._sampling is None else {waiting, self._sampling}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for task in done:
            task.result()

    async def stop(self) -> None:
        """End everything; agents are told by the end of their connections."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
        if self._load is not None:
            await self._load.end()
        await self._agents.stop()
        await asyncio.gather(*(server.close() for server in self._servers))
        if self._sampling is not None:
            await asyncio.to_thread(self._watchdog.stop)

    async def _listen(self, address: Address) -> Address:
        roles = {role for role, each in self._options.addresses.items() if each == address}
        routes = Routes(
            access=Access(self._options.callers, self._options.token),
            protected=self._options.protected,
            monitor=self._monitor if "monitor" in roles else None,
            informant=self._informant if "informant" in roles else None,
            cpus=self._cpus,
            load=self._load,
            has_metrics="metrics" in roles,
            own_metrics=self._own_metrics,
        )
        server = Server(routes.handle, limits=_LIMITS, tls=self._options.tls)
        self._servers.append(server)
        return await server.start(*address)

    def _line(self, role: str, host: str, port: int) -> str:
        scheme, path = _SCHEMES[role]
        secure = "s" if self._options.tls is not None else ""
        shown = f"[{host}]" if ":" in host else host
        return f"{role}: listening on {scheme}{secure}://{shown}:{port}{path}"
