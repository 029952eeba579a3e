"""One VM behind the platform `qemu`: what it is now, and how a size is asked of it.

What it is comes from the VM: CPUs that the guest runs, memory that QEMU says it has and the guest has taken.
A session over QMP keeps others out meanwhile; the guest is asked before it, so that it stays short.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from app.adapters.qemu_cpu import CpuDriver
from app.adapters.qemu_guest import GuestCpus, GuestDaemon, GuestMemory
from app.adapters.qemu_memory import Balloon, DimmSlots, MemoryDriver, MemoryState, VirtioMem
from app.adapters.qemu_note import Note, read_note
from app.adapters.qemu_quota import CpuQuota
from app.adapters.qmp import QmpAddress, QmpSession, qmp_session
from app.config.vm_inventory import VmEntry
from app.core.resources import Resources, resources
from app.errors import PeerError, PeerRefused
from app.ports.vm import Address
from app.protocols.printable import printable

_MOVING = {"inmigrate", "postmigrate", "finish-migrate"}
_MIGRATING = {
    "setup",
    "active",
    "device",
    "pre-switchover",
    "postcopy-active",
    "postcopy-paused",
    "postcopy-recover",
    "wait-unplug",
    "cancelling",
}


@dataclass(frozen=True, slots=True)
class GuestWord:
    """What the guest said: None for what it has no daemon for; `problem`: why it said nothing."""

    cpus: GuestCpus | None
    memory: GuestMemory | None
    problem: PeerError | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of a VM in one session.

    Attributes:
        running: CPUs.
        use: the size asked for last; with nobody's wish, the observed one.
        observed: the size that it has; None while the guest does not answer.
        is_migrating: it is on its way to or from another host; nothing may be asked of it.
        guest: what the guest says of its memory; None while it does not answer.
    """

    running: int
    memory: MemoryState
    note: Note | None
    use: Resources | None
    observed: Resources | None
    is_migrating: bool
    guest: GuestMemory | None = None


class QemuMachine:
    """One entry of the inventory, with its drivers."""

    def __init__(self, entry: VmEntry) -> None:
        self.entry = entry
        self.slot_bytes = entry.slot_bytes
        self.address = qmp_address(entry.qmp)
        token = None if entry.token_file is None else Path(entry.token_file)
        self.guest = None if entry.guest is None else GuestDaemon(host_port(entry.guest), token)
        page = entry.metrics or entry.guest
        self.page = None if page is None else GuestDaemon(host_port(page), token)
        quota = CpuQuota(None if entry.cgroup is None else Path(entry.cgroup))
        self.cpu = CpuDriver(self.guest, quota, is_plugged=entry.cpu_driver == "qmp")
        self.memory = _memory_driver(entry)

    def session_peer(self) -> str:
        """How errors call it."""
        return f"QEMU at {self.address}"

    def ask_guest(self, *, timeout_s: float) -> GuestWord:
        """The guest's own numbers; a guest that does not answer is said to be so, not raised."""
        deadline = time.monotonic() + timeout_s
        try:
            cpus = self.cpu.guest_cpus(timeout_s=timeout_s)
            remaining = max(deadline - time.monotonic(), 0.001)
            memory = None if self.page is None else self.page.memory(timeout_s=remaining)
        except PeerError as err:
            return GuestWord(None, None, err)
        return GuestWord(cpus, memory)

    def look(self, *, timeout_s: float) -> Sight:
        """What the VM is now.

        Raises:
            PeerUnreachable: QEMU is not there, or serves another client all the time.
            PeerRefused: the VM does not run (paused, crashed, shut down), or was not started for its drivers.
            PeerTimedOut: QEMU or the guest gave no answer.
        """
        deadline = time.monotonic() + timeout_s
        with qmp_session(self.address, timeout_s=timeout_s / 2) as session:
            is_migrating = is_moving(session)
            self.memory.read(session)
        # Asked outside of the session: a guest may take long, and others wait for their turn at QEMU.
        word = self.ask_guest(timeout_s=max(deadline - time.monotonic(), 0.001) / 2)
        with qmp_session(self.address, timeout_s=max(deadline - time.monotonic(), 0.001)) as session:
            sight = self.see(session, word, is_migrating=is_migrating)
        if word.problem is not None and not is_migrating:
            raise word.problem
        return sight

    def see(self, session: QmpSession, word: GuestWord, *, is_migrating: bool) -> Sight:
        """Put together what QEMU says now and what the guest has just said. Raises PeerError."""
        running = self.cpu.running(session, word.cpus)
        memory = self.memory.read(session)
        note = read_note(session)
        asked = note.use if note is not None and note.slot_bytes == self.slot_bytes else None
        if word.problem is not None:
            return Sight(running, memory, note, asked, None, is_migrating)
        cpu = self.cpu.observed(running, None if asked is None else asked.cpu)
        observed = resources(cpu, self._slots(memory, word.memory, asked))
        return Sight(running, memory, note, asked or observed, observed, is_migrating, word.memory)

    def _slots(self, memory: MemoryState, guest: GuestMemory | None, asked: Resources | None) -> int:
        """The memory that the VM has, in slots: what is not whole yet counts as not reached.

        Memory that QEMU has plugged and the guest has not set online is not the guest's: it has then less
        than the plugged part and half of what it was started with (the kernel keeps a share of that).
        """
        actual = memory.actual
        if guest is not None and memory.least and guest.total < actual - memory.least // 2:
            actual = min(actual, guest.total + memory.least // 2)
        # A shrink that was stopped asks QEMU for what is there: only what we asked for tells that it is one.
        goals = [memory.requested] if asked is None else [memory.requested, asked.mem * self.slot_bytes]
        is_falling = min(goals) < memory.actual
        return -(-actual // self.slot_bytes) if is_falling else actual // self.slot_bytes


def is_moving(session: QmpSession) -> bool:
    """Whether the VM is migrating.

    Raises:
        PeerRefused: it is neither running nor migrating; the text says what it is.
    """
    found = session.execute("query-status")
    status = found.get("status") if isinstance(found, dict) else None
    if status in _MOVING:
        return True
    if status != "running":
        raise PeerRefused(session.peer, f"the VM is not running: {printable(str(status), 40)}")
    migration = session.execute("query-migrate")
    return isinstance(migration, dict) and migration.get("status") in _MIGRATING


def qmp_address(text: str) -> QmpAddress:
    """An address as the inventory writes it, checked there."""
    if text.startswith("/"):
        return QmpAddress(path=Path(text))
    host, port = host_port(text)
    return QmpAddress(host=host, port=port)


def host_port(text: str) -> Address:
    """`HOST:PORT` of the inventory, checked there."""
    host, _, port = text.rpartition(":")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _memory_driver(entry: VmEntry) -> MemoryDriver:
    match entry.memory_driver:
        case "virtio-mem":
            return VirtioMem(entry.memory_device)
        case "dimm":
            return DimmSlots(entry.slot_bytes)
        case "balloon":
            return Balloon()
