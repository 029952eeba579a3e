"""Whether the VMs can be listed, and what runs in one of them reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.core.model import Mode
from app.errors import InvalidInput, PeerError
from app.ports.peers import MetricsSource, SchedulerInfo
from app.ports.platform import InventoryChange
from app.ports.probes import Reach
from app.ports.vm import MonitorPolicy, VirtualMachine
from app.protocols.printable import printable
from app.protocols.prometheus_text import read_sample
from app.services.checkup import Check, Finding, ok, problem, warning
from app.services.wording import bytes_text, count_text

CALL_S = 3.0
"""For one call to a peer; a check makes two at most beside the list."""

MAX_NAMED = 3
"""Objects that can't be read, named one by one."""

_LIST = "look at `platform` and, with neonvm, at the rights above (docs/configuration.md)"
_GREETING = "let the network policy admit us to the pod, and see that it listens there"


@dataclass(frozen=True, slots=True)
class VmChecks:
    """How VMs are looked at.

    Attributes:
        fleet: lists the VMs that are ours.
        page_prefix: `node_` or `host_`.
        ask_monitor: connects to a monitor as an agent does, which ends the connection of the one before.
        where: what decides that a VM is ours, for an operator.
    """

    fleet: Callable[[], InventoryChange]
    pages: MetricsSource
    reach: Reach
    page_prefix: str
    ask_monitor: Callable[[VirtualMachine], None]
    where: str

    def check(self, name: str | None, *, asks_monitor: bool) -> Check:
        """The check of the VMs, and of one of them.

        Args:
            name: which one, `namespace/name`; None: the first that is scaled, else the first.
            asks_monitor: whether the monitor is spoken to; else it is only seen whether it listens.
        """
        return Check("VMs", lambda: self._look(name, asks_monitor), _LIST)

    def _look(self, name: str | None, asks_monitor: bool) -> Iterator[Finding]:
        change = self.fleet()
        vms = sorted(change.updated, key=lambda vm: (vm.mode is not Mode.SCALE, vm.key))
        yield from self._count(vms, change)
        chosen = [vm for vm in vms if name in (None, vm.key)]
        if chosen:
            yield from self._metrics(chosen[0])
            yield from self._monitor(chosen[0], asks_monitor)
        elif name is not None:
            unreadable = dict(change.unreadable).get(name)
            told = "is not ours" if unreadable is None else f"can't be read: {unreadable}"
            yield problem(f"VM {printable(name, 200)}", told, f"ours are {self.where}")

    def _count(self, vms: list[VirtualMachine], change: InventoryChange) -> Iterator[Finding]:
        scaled = sum(vm.mode is Mode.SCALE for vm in vms)
        told = f"{scaled} to be scaled, {len(vms) - scaled} to be observed"
        if vms:
            yield ok("VMs", told)
        else:
            yield warning("VMs", "none is ours", f"ours are {self.where}")
        for key, why in change.unreadable[:MAX_NAMED]:
            step = "put the object right; the others are scaled meanwhile"
            yield warning("VMs", f"{printable(key, 200)} can't be read: {printable(why)}", step)
        if len(change.unreadable) > MAX_NAMED:
            rest = count_text(len(change.unreadable) - MAX_NAMED, "more VM")
            yield warning("VMs", f"{rest} can't be read", "`vmscaler vm list` names all of them")

    def _metrics(self, vm: VirtualMachine) -> Iterator[Finding]:
        about = f"metrics of {printable(vm.key, 200)}"
        if vm.metrics is None:
            yield ok(about, "it has none")
            return
        try:
            sample = read_sample(self.pages.fetch(vm.metrics, timeout_s=CALL_S), self.page_prefix)
        except PeerError as err:
            yield problem(about, str(err), f"{_GREETING}: metrics.port")
        except InvalidInput as err:
            step = "the guest must serve load averages and memory: metrics.loadMetricPrefix (docs/guest.md)"
            yield problem(about, f"the page can't be used: {err}", step)
        else:
            used = bytes_text(sample.mem_bytes)
            yield ok(about, f"load {sample.load1:.2f}, memory {used}")

    def _monitor(self, vm: VirtualMachine, asks_monitor: bool) -> Iterator[Finding]:
        about = f"monitor of {printable(vm.key, 200)}"
        address = vm.monitor_address
        if vm.monitor is MonitorPolicy.NONE or address is None:
            yield ok(about, "it has none, and needs none")
            return
        try:
            if asks_monitor:
                self.ask_monitor(vm)
            else:
                self.reach.connect(address.host, address.port, timeout_s=CALL_S)
        except PeerError as err:
            yield problem(about, str(err), f"{_GREETING}: monitor.serverPort; until then no downscale")
            return
        if asks_monitor:
            yield ok(about, "answers a health check; its agent, if any, dials again")
        else:
            yield ok(about, "listens; not spoken to, since that ends its agent's connection (--ask-monitor)")


def scheduler_check(
    current: Callable[[], SchedulerInfo | None], reach: Reach, *, where: str, step: str, source: str
) -> Check:
    """Whether there is a scheduler to ask for permits, and it answers.

    Args:
        where: what it is looked up by, for an operator.
        step: what to do where there is none.
        source: who says which it is.
    """

    def look() -> Iterator[Finding]:
        info = current()
        if info is None:
            yield problem("scheduler", f"none is ready: {where}; nothing grows without one", step)
            return
        name = printable(info.name, 200)
        try:
            # A GET changes nothing: permits are asked for by POST. Any status is an answer.
            status = reach.status(info.url, timeout_s=CALL_S)
        except PeerError as err:
            yield problem("scheduler", f"{name}: {err}", f"{_GREETING}: scheduler.requestPort")
            return
        yield ok("scheduler", f"{name} answers at {printable(info.url, 200)} (status {status} to a GET)")

    return Check("scheduler", look, f"look at {source} first")
