"""The directory of a VM that was started on this machine: its description, its marks, its lock.

    <state>/vms/<name>/vm.json      what it is, and how it is started
                       started      there while it is to run: between `vm start` and `vm stop`
                       run.lock     held by its QEMU to its end, so that a dead one is never taken for alive
                       qemu.pid, qmp.sock, console.sock, console.log, qemu.log, token, port

Only its user can enter it (0700): who can write to the QMP socket owns the VM.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from app.config.document import MAX_FILE_BYTES
from app.config.fields import OwnPort, Section, Text, setting
from app.config.problems import tell_all
from app.config.quantities import Size
from app.config.vm_inventory import InventoryFile, InventoryProblem, Name, SizeSettings, VmEntry
from app.errors import ConfigurationError, InvalidInput, UsageError
from app.protocols.bounded_json import read_json

LEAST_BYTES = 192 * 1024 * 1024
"""With less the guest of our image has nothing left for its work."""
BLOCK_BYTES = 128 * 1024 * 1024
MAX_CPUS = 255
"""Without an interrupt remapper, which these VMs don't have."""
NAMESPACE = "local"
"""Of all VMs that were started on this machine."""
DESCRIPTION, STARTED, LOCK = "vm.json", "started", "run.lock"
PID, QMP, CONSOLE, CONSOLE_LOG, LOG, TOKEN, PORT = (
    "qemu.pid",
    "qmp.sock",
    "console.sock",
    "console.log",
    "qemu.log",
    "token",
    "port",
)


class LocalVm(Section):
    """What `vm create` was told, and what it chose."""

    version: int = setting(1, "of this form")
    name: Name = setting(..., "the VM's name")
    uid: Text = setting(..., "made up for it")
    node: Text = setting(..., "the host's name")
    min: SizeSettings = setting(..., "the least that it may have")
    max: SizeSettings = setting(..., "the most that it may have")
    slot_bytes: Size = setting(..., "the step of its memory", alias="slot")
    image: Text = setting(..., "directory of its image")
    cpu_driver: Text = setting("guest", "see the inventory")
    memory_driver: Text = setting("virtio-mem", "see the inventory")
    billing_id: Text | None = setting(None, "billing identity")
    labels: Mapping[Text, str] = setting({}, "labels")
    port: OwnPort = setting(0, "wanted port on loopback; 0 for a free one at each start")


@dataclass(frozen=True, slots=True)
class VmDirectory:
    """One VM's directory; nothing is opened by having it."""

    path: Path

    @property
    def name(self) -> str:
        """The VM's name."""
        return self.path.name

    def file(self, name: str) -> Path:
        """A file in it."""
        return self.path / name

    def read(self) -> LocalVm:
        """The VM's description.

        Raises:
            InvalidInput: it is not there, or not what we wrote.
        """
        file = self.file(DESCRIPTION)
        try:
            with file.open("rb") as opened:
                value = read_json(opened.read(MAX_FILE_BYTES + 1), max_bytes=MAX_FILE_BYTES, where=str(file))
            vm = LocalVm.model_validate(value)
        except OSError as err:
            raise InvalidInput(str(file), f"can't be read: {err.strerror}") from err
        except ValidationError as err:
            raise InvalidInput(str(file), tell_all(err.errors(include_url=False), LocalVm)[0]) from err
        if vm.name != self.name:
            raise InvalidInput(str(file), "describes another VM than its directory's name says")
        return vm

    def write(self, vm: LocalVm) -> None:
        """Write the description, at once and for good."""
        fresh = self.file(f".{DESCRIPTION}")
        text = json.dumps(vm.model_dump(mode="json", by_alias=True), indent=1) + "\n"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.file(DESCRIPTION))

    def is_wanted(self) -> bool:
        """Whether it is to run."""
        return self.file(STARTED).exists()

    def is_running(self) -> bool:
        """Whether its QEMU lives: the lock tells, which ends with the process in whatever way."""
        lock = self.try_lock()
        if lock is None:
            return True
        os.close(lock)
        return False

    def try_lock(self) -> int | None:
        """The lock as a descriptor that a child may inherit; None while someone has it.

        Raises:
            OSError: the directory is not there, or not ours.
        """
        lock = os.open(self.file(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        return lock

    def pid(self) -> int | None:
        """Its QEMU's process, while it runs."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self.file(PID).read_text("ascii").strip())
            return pid if pid > 1 and self.is_running() else None
        return None

    def host_port(self) -> int | None:
        """The port on loopback behind which its guest's daemon is; None before it was started."""
        with contextlib.suppress(OSError, ValueError):
            port = int(self.file(PORT).read_text("ascii").strip())
            return port if 0 < port <= 65_535 else None
        return None

    def entry(self) -> VmEntry:
        """The VM as an entry of the inventory.

        Raises:
            InvalidInput: its description is wrong, or it has no port yet.
        """
        vm, port = self.read(), self.host_port()
        if port is None:
            raise InvalidInput(str(self.file(PORT)), "it was not started completely")
        try:
            return _entry(vm, self.path, port)
        except ValidationError as err:
            problem = tell_all(err.errors(include_url=False), VmEntry)[0]
            raise InvalidInput(str(self.file(DESCRIPTION)), problem) from err


def check_local_vm(vm: LocalVm) -> None:
    """What can be said of a VM before it is there.

    Raises:
        UsageError: it can't be started like this; the text says why.
    """
    try:
        _entry(vm, Path("/"), 1)
    except ValidationError as err:
        raise UsageError(tell_all(err.errors(include_url=False), VmEntry)[0].removeprefix(".: ")) from err
    if vm.min.size_bytes < LEAST_BYTES:
        raise UsageError(
            f"min.memory must be at least {LEAST_BYTES >> 20}Mi: the image needs that much to start"
        )
    if vm.max.milli_cpu > MAX_CPUS * 1000:
        raise UsageError(f"max.cpu must be at most {MAX_CPUS}")
    if vm.slot_bytes % BLOCK_BYTES:
        raise UsageError(f"slot must be a multiple of {BLOCK_BYTES >> 20}Mi, Linux's block of memory")


def _entry(vm: LocalVm, directory: Path, port: int) -> VmEntry:
    """Raises ValidationError."""
    fields = {
        "name": vm.name,
        "namespace": NAMESPACE,
        "uid": vm.uid,
        "node": vm.node,
        "min": vm.min,
        "max": vm.max,
        "slot": vm.slot_bytes,
        "qmp": str(directory / QMP),
        "guest": f"127.0.0.1:{port}",
        "tokenFile": str(directory / TOKEN),
        "cpuDriver": vm.cpu_driver,
        "memoryDriver": vm.memory_driver,
        "billingId": vm.billing_id,
        "labels": vm.labels,
    }
    return VmEntry.model_validate(fields)


def vm_directories(state: Path) -> list[VmDirectory]:
    """All VMs' directories, by name; none where there are none yet.

    Raises:
        ConfigurationError: they can't be listed.
    """
    try:
        with os.scandir(state / "vms") as found:
            names = [each.name for each in found if each.is_dir() and not each.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as err:
        raise ConfigurationError([f"{state / 'vms'}: {err.strerror}"], source="state directory") from err
    return [VmDirectory(state / "vms" / name) for name in sorted(names)]


def running_entries(state: Path) -> InventoryFile:
    """Entries of the VMs that are to run, dead ones too, and what is wrong with others."""
    entries, problems = [], []
    try:
        directories = vm_directories(state)
    except ConfigurationError as err:
        return InventoryFile((), (InventoryProblem(str(state), str(err)),), is_readable=False)
    for directory in directories:
        if not directory.is_wanted():
            continue
        try:
            entries.append(directory.entry())
        except InvalidInput as err:
            problems.append(InventoryProblem(f"{NAMESPACE}/{directory.name}", str(err)))
    return InventoryFile(tuple(entries), tuple(problems))
