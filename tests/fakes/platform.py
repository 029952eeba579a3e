"""A platform in memory: accepts sizes at once, applies them when told to, and can be made to refuse."""

from __future__ import annotations

from dataclasses import replace

from app.core.resources import Resources
from app.errors import PeerRefused, PeerUnreachable
from app.ports.platform import Cursor, InventoryChange
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey


class FakePlatform:
    """`app.ports.platform.Platform` without a wire.

    Attributes:
        refusals: keys of VMs whose next sizes are refused.
        is_applying: whether an accepted size is observed at once; else it waits for `settle`.
        is_down: every call raises `PeerUnreachable`.
        applied: (key, size, token) of each accepted size.
    """

    def __init__(self, *vms: VirtualMachine) -> None:
        self.refusals: set[VmKey] = set()
        self.is_applying = True
        self.is_down = False
        self.applied: list[tuple[VmKey, Resources, FencingToken]] = []
        self.closed = 0
        self._vms = {vm.key: vm for vm in vms}
        self._tokens: dict[VmKey, FencingToken] = {}
        self._log: list[VmKey] = list(self._vms)

    def put(self, vm: VirtualMachine) -> None:
        """Add or change a VM."""
        self._vms[vm.key] = vm
        self._log.append(vm.key)

    def delete(self, key: VmKey) -> None:
        """Take a VM away."""
        self._vms.pop(key, None)
        self._log.append(key)

    def get(self, key: VmKey) -> VirtualMachine:
        """The VM as it is now."""
        return self._vms[key]

    def settle(self) -> None:
        """Let every accepted size become the observed one."""
        for vm in list(self._vms.values()):
            if vm.observed != vm.use:
                self.put(replace(vm, observed=vm.use))

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        """Never waits; an unknown cursor gets everything."""
        self._check()
        now = Cursor(str(len(self._log)))
        if cursor is None or not cursor.isdigit() or int(cursor) > len(self._log):
            return InventoryChange(now, True, tuple(self._vms.values()))
        keys = dict.fromkeys(self._log[int(cursor) :])
        updated = tuple(self._vms[key] for key in keys if key in self._vms)
        return InventoryChange(now, False, updated, tuple(key for key in keys if key not in self._vms))

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        """The observed size."""
        return self._known(vm).real_size

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        """Accept or refuse a size, with the statuses of the simulated fleet."""
        known = self._known(vm)
        if token < self._tokens.get(vm.key, 0):
            raise PeerRefused("platform", "old token", code=409)
        self._tokens[vm.key] = token
        if vm.use != known.use:
            raise PeerRefused("platform", "another basis", code=412)
        if target.has_field_above(known.max.max(known.use)) or target.has_field_below(
            known.min.min(known.use)
        ):
            raise PeerRefused("platform", "out of bounds", code=422)
        if vm.key in self.refusals:
            raise PeerRefused("platform", "refused", code=422)
        self.applied.append((vm.key, target, token))
        self.put(replace(known, use=target, observed=target if self.is_applying else known.observed))

    def close(self) -> None:
        """Counted."""
        self.closed += 1

    def _check(self) -> None:
        if self.is_down:
            raise PeerUnreachable("platform", "no connection")

    def _known(self, vm: VirtualMachine) -> VirtualMachine:
        self._check()
        if vm.key not in self._vms:
            raise PeerRefused("platform", "no such VM", code=404)
        return self._vms[vm.key]
