"""The process of the simulated fleet: starts the servers, saves the state, ends on a signal."""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.adapters.ending import end_within
from app.adapters.journal_file import JournalFile
from app.errors import ConfigurationError
from app.fleet.control import ControlInterface
from app.fleet.fleet import ApplyRates, Fleet
from app.fleet.host_vm import HostVm, this_machine
from app.fleet.node_page import NodePage
from app.fleet.pushing import Pusher, PushOptions
from app.fleet.simulated_vm import SimulatedVm
from app.fleet.state_file import SavedFleet, load_state, save_state
from app.fleet.vm_server import VmServer
from app.guest.access import Access
from app.guest.server import Limits, Server
from app.guest.tls import server_tls
from app.protocols.access import AllowedAddresses
from app.simulation.faults import Fault
from app.simulation.fleet_plan import DEFAULT_MIX, plan_fleet, with_traces
from app.simulation.played_trace import TraceChoice
from app.simulation.profiles import Profile

logger = logging.getLogger(__name__)

VM_HOST = "127.0.0.1"
"""Where the VMs' servers listen, whatever is asked of their callers."""
GRACE_S = 20.0
"""For its end, from the first signal on."""
SAVE_EVERY_S = 0.5
"""Least time between two writes of the state file."""
SAVE_AGE_EVERY = 20
"""So many of these pauses after the last write, it is written for the fleet's age alone."""
_CONTROL_LIMITS = Limits(connections=256, respond_s=60)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """What `vmscaler sim` was asked for.

    Attributes:
        state: directory for the state file; None: nothing is kept.
        control: host and port of the control interface; port 0 for a free one.
        token: what control requests must carry; None: nothing.
        faults: switched on from the start, each with its fraction of the VMs.
        host_metrics: where this machine's metrics page is, to show it as an observed VM; None: it isn't.
        traces: recorded loads that VMs play instead of their profiles; None: there are none.
        callers: who may call the control interface and the VMs; None: everyone.
        certificate: files of a certificate and its key: the control interface speaks TLS; None: plain HTTP.
        are_vms_guarded: whether the VMs' servers, too, speak TLS and ask for the token.
        push: VMs that push their stats in place of being polled; None: there are none.
    """

    vms: int
    seed: int = 1
    nodes: int = 2
    state: Path | None = None
    control: tuple[str, int] = (VM_HOST, 10310)
    token: str | None = None
    mix: Mapping[Profile, float] = field(default_factory=lambda: DEFAULT_MIX)
    faults: Mapping[Fault, float] = field(default_factory=dict)
    rates: ApplyRates = field(default_factory=ApplyRates)
    host_metrics: tuple[str, int] | None = None
    journal: Path | None = None
    traces: TraceChoice | None = None
    callers: AllowedAddresses | None = None
    certificate: tuple[str, str | None] | None = None
    are_vms_guarded: bool = False
    push: PushOptions | None = None


async def run_fleet(options: FleetOptions, *, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT; `announce` gets one line once everything listens.

    Raises:
        ConfigurationError: the state, an address or a file can't be used.
        UsageError: a VM that is to play a trace isn't there.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    end_within(GRACE_S, lambda: loop.call_soon_threadsafe(stop.set))
    _raise_file_limit(options.vms)
    process = _Process(options)
    try:
        host, port = await process.start()
        scheme = "http" if options.certificate is None else "https"
        announce(f"{options.vms} VMs; control interface on {scheme}://{host}:{port}")
        await stop.wait()
    finally:
        await process.close()


class _Process:
    """Everything that runs; `close` undoes `start`, also a half-done one."""

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._servers: dict[str, VmServer] = {}
        self._saver: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        plans = plan_fleet(options.vms, options.seed, nodes=options.nodes, mix=options.mix)
        if options.traces is not None:
            plans = with_traces(plans, options.traces)
        saved = _load(options)
        self._journal = _journal(options.journal)
        self._fleet = Fleet(
            plans, saved, rates=options.rates, journal=self._journal, on_deleted=self._close_server
        )
        self._pusher = None if options.push is None else Pusher(self._fleet, options.push)
        self._pushing = [] if options.push is None else list(self._fleet.vms.values())[-options.push.count :]
        for vm in self._pushing:
            vm.is_push_only = True
        for fault, fraction in options.faults.items():
            self._fleet.faults.switch_on(fault, fraction=fraction)
        interface = ControlInterface(
            self._fleet,
            host=VM_HOST,
            access=Access(options.callers, options.token),
            observed=_observed(options.host_metrics),
        )
        self._tls = _tls(options.certificate)
        self._control = Server(interface.handle, limits=_CONTROL_LIMITS, tls=self._tls)

    async def start(self) -> tuple[str, int]:
        page = NodePage()
        options = self._options
        host, port = options.control
        access = Access(options.callers, options.token if options.are_vms_guarded else None)
        tls = self._tls if options.are_vms_guarded else None
        try:
            for vm in self._fleet.vms.values():
                self._servers[vm.key] = VmServer(self._fleet, vm, page, access, tls)
            for server in self._by_saved_port():
                await server.start(VM_HOST)
            self._save()
            address = await self._control.start(host, port)
        except OSError as err:
            raise ConfigurationError([f"{host}:{port}: {err.strerror or err}"], source="sim") from err
        self._fleet.resume_applies()
        if self._pusher is not None:
            self._pusher.start(self._pushing)
        self._saver = asyncio.create_task(self._save_now_and_then(), name="fleet-state")
        return address

    async def close(self) -> None:
        if self._saver is not None:
            self._saver.cancel()
            await asyncio.gather(self._saver, return_exceptions=True)
        if self._pusher is not None:
            await self._pusher.stop()
        self._fleet.close()
        self._save()
        await asyncio.gather(
            self._control.close(0.2), *(server.close() for server in self._servers.values()), *self._closing
        )
        self._journal.close()

    def _by_saved_port(self) -> list[VmServer]:
        """Those with a port from before come first, so that no free choice takes it from them."""
        vms = sorted(self._fleet.vms.values(), key=lambda vm: vm.port == 0)
        return [self._servers[vm.key] for vm in vms]

    def _close_server(self, vm: SimulatedVm) -> None:
        server = self._servers.pop(vm.key, None)
        if server is not None:
            task = asyncio.get_running_loop().create_task(server.close(), name=f"close-{vm.key}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _save_now_and_then(self) -> None:
        pauses = 0
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            pauses += 1
            if self._fleet.is_dirty or pauses >= SAVE_AGE_EVERY:
                self._save()
                pauses = 0

    def _save(self) -> None:
        if self._options.state is None:
            return
        try:
            save_state(self._options.state, self._fleet.snapshot())
            self._fleet.is_dirty = False
        except OSError as err:
            logger.warning("the fleet's state can't be saved", extra={"error": str(err)})


def _load(options: FleetOptions) -> SavedFleet:
    if options.state is None:
        return SavedFleet(options.seed)
    try:
        options.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as err:
        raise ConfigurationError([err.strerror or str(err)], source=str(options.state)) from err
    return load_state(options.state, options.seed)


def _journal(path: Path | None) -> JournalFile:
    try:
        return JournalFile(path)
    except OSError as err:
        raise ConfigurationError([err.strerror or str(err)], source=str(path)) from err


def _observed(metrics: tuple[str, int] | None) -> HostVm | None:
    if metrics is None:
        return None
    try:
        return this_machine(metrics)
    except (OSError, ValueError) as err:
        raise ConfigurationError([f"this machine can't be observed: {err}"], source="sim") from err


def _tls(certificate: tuple[str, str | None] | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    try:
        return server_tls(*certificate)
    except ValueError as err:
        raise ConfigurationError([str(err)], source="sim") from err


def _raise_file_limit(vms: int) -> None:
    """A VM takes a listening socket and a few connections; the soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * vms + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
