"""Whom the control plane asks, in virtual time: a scheduler with a node's books, and a monitor's rule."""

from __future__ import annotations

from app.core.permits import Amount, PodFacts, Refusal, Wish
from app.core.reservations import Reservations
from app.core.resources import Resources, resources
from app.simulation.scenario import VmScenario

_NODE = "node"
_MIB = 1 << 20
KERNEL_BYTES = 100 * _MIB
"""What the kernel keeps of a VM's memory; it counts as used (`spec/monitor-protocol.md`, as the next two)."""
HEADROOM_BYTES = 100 * _MIB
"""What must be free above the workload for a downscale."""
FILLED_PERCENT = 85
"""Share of the rest that the workload may fill."""


class PermitBook:
    """The built-in scheduler's books for one node."""

    def __init__(self, capacity: Amount, vms: tuple[VmScenario, ...]) -> None:
        """All VMs are on the node from the beginning, each with its first size.

        Attributes:
            version: another number whenever what a VM holds has changed.
        """
        self.version = 0
        self._held: dict[str, tuple[Resources | None, Resources]] = {}
        self._books = Reservations({_NODE: capacity})
        self._vms = {vm.name: vm for vm in vms}
        for vm in vms:
            self.resized(vm.name, vm.first)

    def ask(self, name: str, target: Resources, now_ms: int) -> Resources | None:
        """The permit for a VM that wants to hold `target`; None if it is refused."""
        slot = self._vms[name].slot_bytes
        answer = self._books.request(name, Wish(Amount(target.cpu, target.mem * slot)), now_ms=now_ms)
        if isinstance(answer, Refusal):
            return None
        permit = resources(answer.permit.cpu, answer.permit.mem // slot)
        self._note(name, permit, self._held[name][1])
        return permit

    def _note(self, name: str, permit: Resources | None, size: Resources) -> None:
        if self._held.get(name) != (permit, size):
            self._held[name] = (permit, size)
            self.version += 1

    def resized(self, name: str, size: Resources) -> None:
        """The platform shows a new size."""
        vm = self._vms[name]
        before = self._held.get(name)
        self._note(name, before[0] if before else None, size)
        slot = vm.slot_bytes
        most = Amount(vm.max.cpu, vm.max.mem * slot)
        self._books.update(PodFacts(name, name, _NODE, most, Amount(size.cpu, size.mem * slot), slot))


def room_bytes(total_bytes: int) -> int:
    """Memory in use, the kernel's share included, up to which a monitor is content with a size."""
    return KERNEL_BYTES + max(total_bytes - KERNEL_BYTES, 0) * FILLED_PERCENT // 100


def allows_downscale(used_bytes: float, target_bytes: int) -> bool:
    """Whether the monitor lets the memory go down to `target_bytes`."""
    return used_bytes + HEADROOM_BYTES <= room_bytes(target_bytes)
