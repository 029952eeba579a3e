"""Some fake QEMUs in an inventory file, behind the platform."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from app.adapters.qemu_inventory import QemuInventory
from app.adapters.qemu_platform import QemuPlatform
from app.core.resources import resources
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey
from tests.fakes.qemu import FakeQemu

OOM_HOLD_S = 30.0


def _platform(file: Path) -> QemuPlatform:
    return QemuPlatform(QemuInventory(file, None), look_every_s=0.5, look_limit_s=4.0, oom_hold_s=OOM_HOLD_S)


class QemuFleet:
    """VMs by name; a context manager. The file is written anew by `write`."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.file = directory / "vms.yaml"
        self._stack = contextlib.ExitStack()
        self.qemus = {name: self._stack.enter_context(FakeQemu(directory, name)) for name in names}
        self.entries = {name: qemu.entry(name) for name, qemu in self.qemus.items()}
        self.write()
        self.platform = _platform(self.file)
        self._stack.callback(self.platform.close)

    def __enter__(self) -> QemuFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    @contextlib.contextmanager
    def sharing(fleet: QemuFleet) -> Iterator[QemuFleet]:
        """The same VMs through a platform of another worker."""
        other = QemuFleet.__new__(QemuFleet)
        other.file, other.qemus, other.entries = fleet.file, fleet.qemus, fleet.entries
        other.platform = _platform(fleet.file)
        try:
            yield other
        finally:
            other.platform.close()

    def write(self) -> None:
        """Put the entries into the file, as an editor does."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"vms": list(self.entries.values())}, indent=1))
        fresh.replace(self.file)

    def delete(self, key: VmKey) -> None:
        """Take a VM out of the file."""
        del self.entries[key.partition("/")[2]]
        self.write()

    def vm(self, name: str = "a") -> VirtualMachine:
        """The VM as the platform tells it now."""
        return {vm.name: vm for vm in self.platform.changes(None, wait_s=0).updated}[name]

    def apply(self, vm: VirtualMachine, cpu: int, mem: int, *, token: int = 1, timeout_s: float = 30) -> None:
        """Ask for a size."""
        self.platform.apply_size(vm, resources(cpu, mem), token=FencingToken(token), timeout_s=timeout_s)
