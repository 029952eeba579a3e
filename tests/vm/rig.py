"""One or two real VMs behind the platform `qemu`, in a directory of their own; nothing is left at the end."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.adapters.image_build import Image, build_image
from app.adapters.qemu_directory import VmDirectory
from app.adapters.qemu_guest import GuestDaemon, GuestMemory
from app.adapters.qemu_inventory import QemuInventory
from app.adapters.qemu_local import LocalVms
from app.adapters.qemu_platform import QemuPlatform
from app.adapters.xdg import cache_directory
from app.cli.demo_vm_setup import describe_vms
from app.core.resources import Resources, resources
from app.errors import PeerError
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine

SLOT = 128 << 20
LEAST, MOST = resources(1000, 4), resources(4000, 16)
"""Bounds of the VMs: 1 CPU and 512 MiB to 4 CPUs and 2 GiB."""
TOKEN = FencingToken(1)
APPLY_LIMIT_S = 30.0
ANSWER_LIMIT_S = 8.0
PATIENCE_S = 120.0
OOM_HOLD_S = 45.0
MIB = 1 << 20


class Rig:
    """The VMs and the platform."""

    def __init__(self, state: Path, image: Image) -> None:
        self.vms = LocalVms(state, lambda _: (image.kernel, image.initramfs, image.root))
        self.platform = QemuPlatform(
            QemuInventory(None, state), look_every_s=1.0, look_limit_s=8.0, oom_hold_s=OOM_HOLD_S
        )

    def directory(self, name: str) -> VmDirectory:
        return self.vms.find(name)

    def guest(self, name: str) -> GuestDaemon:
        return self.vms.guest(self.directory(name))

    def vm(self, name: str) -> VirtualMachine:
        """The VM as the platform tells it now; waits until it is readable."""
        found: list[VirtualMachine] = []

        def is_told() -> bool:
            found[:] = [vm for vm in self.platform.changes(None, wait_s=0).updated if vm.name == name]
            return bool(found)

        self.until(is_told, f"{name} can be read")
        return found[0]

    def problem(self, name: str) -> str:
        """Why the VM can't be read now; empty where it can."""
        return dict(self.platform.changes(None, wait_s=0).unreadable).get(f"local/{name}", "")

    def apply(self, name: str, target: Resources) -> None:
        """Ask for a size. Raises PeerError as the port does."""
        vm = self.vm(name)
        self.platform.apply_size(vm, target, token=TOKEN, timeout_s=APPLY_LIMIT_S)

    def reach(self, name: str, target: Resources, *, limit_s: float = PATIENCE_S) -> Resources:
        """Ask for a size until it is observed, as the core does; what was observed in the end."""
        deadline = time.monotonic() + limit_s
        observed = None
        while time.monotonic() < deadline:
            with contextlib.suppress(PeerError):
                self.apply(name, target)
            with contextlib.suppress(PeerError):
                observed = self.platform.read_size(self.vm(name), timeout_s=ANSWER_LIMIT_S)
                if observed == target:
                    return observed
            time.sleep(1)
        raise AssertionError(f"{name} has {observed}, not {target}")

    def observed(self, name: str) -> Resources:
        return self.platform.read_size(self.vm(name), timeout_s=ANSWER_LIMIT_S)

    def memory(self, name: str) -> GuestMemory:
        return self.guest(name).memory(timeout_s=ANSWER_LIMIT_S)

    def load(self, name: str, *, cpu: int = 0, mib: int = 0, rate_mib: int = 12, seconds: int = 120) -> None:
        self.guest(name).begin_load(
            milli_cpu=cpu * 1000,
            memory=mib * MIB,
            rate=rate_mib * MIB,
            seconds=seconds,
            timeout_s=ANSWER_LIMIT_S,
        )

    def load_end(self, name: str) -> str | None:
        """How the load ended; None while it runs. A guest that is too busy to say it is asked again."""
        with contextlib.suppress(PeerError):
            found = self.guest(name).load(timeout_s=ANSWER_LIMIT_S)
            return None if found.is_running else found.ended
        return None

    def in_guest(self, name: str, command: str) -> None:
        """Have the root shell on the console run a command; its output goes to console.log."""
        console = self.directory(name).file("console.sock")
        with socket.socket(socket.AF_UNIX) as shell:
            shell.connect(str(console))
            shell.sendall(f"\n{command}\n".encode())
            # The console takes its time; what is not read yet when we go would be lost.
            shell.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                while shell.recv(4096):
                    continue

    def until(self, holds: Callable[[], bool], what: str, *, limit_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"never came: {what}")
            time.sleep(0.5)


@contextlib.contextmanager
def rig(*names: str) -> Iterator[Rig]:
    """VMs of these names, up and seen by the platform."""
    image = build_image(cache_directory() / "images", cache_directory() / "packages")
    state = Path(tempfile.mkdtemp(prefix="vmscaler-vm-"))
    built = Rig(state, image)
    try:
        directories = [built.vms.create(vm) for vm in describe_vms(image, names)]
        for directory in directories:
            built.vms.start(directory)
        for directory in directories:
            built.vms.wait_up(directory)
        yield built
    finally:
        built.platform.close()
        for directory in built.vms.all():
            built.vms.delete(directory)
        shutil.rmtree(state, ignore_errors=True)
