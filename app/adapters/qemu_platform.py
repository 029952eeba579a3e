"""The platform `qemu`: VMs on this host or others, each behind its QEMU's control socket.

There is no server that tells of changes: each VM is looked at every few seconds, several at once. What a look
gives is told when it differs. A VM whose QEMU is dead, hung, or paused, or whose guest is silent, is told as
one that can't be read, with the reason: it stays what it was, neither deleted nor resized.

Two owners: a size is asked for within one session over QMP, of which QEMU serves one at a time; in it the
fencing token kept in that QEMU is compared and replaced (`qemu_note`). What a guest daemon was told by an
older owner and carries out late is seen in the next look, and put right by the owner of then.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from app.adapters.qemu_floor import HOLD_S, MemoryFloor
from app.adapters.qemu_inventory import Known, QemuInventory
from app.adapters.qemu_machine import QemuMachine, Sight, host_port
from app.adapters.qemu_resize import Resize
from app.config.vm_inventory import VmEntry
from app.core.model import Mode, ScalingConfig
from app.core.resources import Resources, resources
from app.errors import PeerError, PeerRefused, PeerUnreachable
from app.ports.platform import Cursor, InventoryChange
from app.ports.store import FencingToken
from app.ports.vm import MonitorPolicy, VirtualMachine, VmKey

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""How often each VM is looked at: two sessions over QMP (2 ms), two questions to the guest (25 to 100)."""
MAX_PAUSE_S = 16.0
"""Between looks at a VM that does not answer; doubled from the usual pause on."""
LOOK_LIMIT_S = 6.0
"""For one look; a guest under full load answers within 2 s. QEMU and the guest have a half each."""
MAX_LOOKS = 16
"""At once; VMs that don't answer must not hold up the others."""
PATIENCE = 2
"""Looks that may fail one after the other before it is told: QEMU may be serving another worker."""
_WAKE_EVERY_S = 0.5
"""How often `changes` sees whether a look or the inventory is due."""
_LOG_LENGTH = 4096
"""Changes that are remembered; who asks for older ones gets the whole fleet."""


@dataclass(slots=True)
class _Tracked:
    """What is known of one VM.

    Attributes:
        vm: None until it was seen once.
        writes: sizes that we have had accepted; a look that was begun before one tells of the past.
        due: when to look again, on the monotonic clock.
    """

    machine: QemuMachine
    floor: MemoryFloor
    vm: VirtualMachine | None = None
    problem: str | None = None
    failures: int = 0
    writes: int = 0
    due: float = 0.0
    look: Future[None] | None = None


class QemuPlatform:
    """`app.ports.platform.Platform` over QMP and the guests' daemons.

    Args:
        observe_label: VMs on which this label is `true` are only observed.
        namespace: show only VMs of this one.
        look_every_s: how often each VM is looked at.
        look_limit_s: for one look.
        oom_hold_s: how long a VM whose guest ran out of memory keeps its maximum; 0: not at all.
    """

    def __init__(
        self,
        inventory: QemuInventory,
        *,
        observe_label: str | None = None,
        namespace: str | None = None,
        look_every_s: float = LOOK_EVERY_S,
        look_limit_s: float = LOOK_LIMIT_S,
        oom_hold_s: float = HOLD_S,
    ) -> None:
        self._inventory = inventory
        self._observe_label = observe_label
        self._namespace = namespace
        self._look_every_s = look_every_s
        self._look_limit_s = look_limit_s
        self._oom_hold_s = oom_hold_s
        self._node = socket.gethostname()
        self._life = f"{os.getpid()}-{time.monotonic_ns()}"
        self._lock = threading.Lock()  # guards what follows; no I/O under it
        self._tracked: dict[VmKey, _Tracked] = {}
        self._known = Known({}, (), 0)
        self._log: list[VmKey] = []
        self._log_begin = 0
        self._full_from = 0
        self._changed = threading.Event()
        self._turn = threading.Lock()  # guards the inventory; it reads files, which is why it has its own
        self._pool = ThreadPoolExecutor(MAX_LOOKS, thread_name_prefix="qemu-look")

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        """See `Platform.changes`; looks at the VMs itself while it waits."""
        deadline = time.monotonic() + wait_s
        position = self._position(cursor)
        looks = self._begin_looks(is_due=position is None)
        if position is None:
            wait(looks, timeout=self._look_limit_s)
        while True:
            with self._lock:
                self._changed.clear()
                change = self._change_since(position)
            remaining = deadline - time.monotonic()
            if change.is_full or change.updated or change.removed or change.unreadable or remaining <= 0:
                return change
            self._changed.wait(min(remaining, _WAKE_EVERY_S))
            self._begin_looks(is_due=False)

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        """See `Platform.read_size`."""
        tracked = self._find(vm)
        sight = tracked.machine.look(timeout_s=timeout_s)
        if sight.observed is None:
            raise PeerUnreachable(
                tracked.machine.session_peer(), "the VM is migrating, its size is not known"
            )
        return sight.observed

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        """See `Platform.apply_size` and `Resize`; a shrink is watched for up to 8 s of the time."""
        tracked = self._find(vm)
        Resize(tracked.machine, vm, target, token, timeout_s).run()
        with self._lock:
            tracked.writes += 1
            tracked.due = 0.0
            if tracked.vm is not None and self._tracked.get(vm.key) is tracked:
                self._put(tracked, replace(tracked.vm, use=target))

    def close(self) -> None:
        """End the looks; they hold no connection open."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _find(self, vm: VirtualMachine) -> _Tracked:
        with self._lock:
            tracked = self._tracked.get(vm.key)
        if tracked is None:
            raise PeerRefused("qemu inventory", f"{vm.key} is not in it", code=404)
        return tracked

    def _position(self, cursor: Cursor | None) -> int | None:
        life, _, position = (cursor or "").partition(":")
        return int(position) if life == self._life and position.isdigit() else None

    def _change_since(self, position: int | None) -> InventoryChange:
        """Under the lock."""
        end = self._log_begin + len(self._log)
        cursor = Cursor(f"{self._life}:{end}")
        if position is None or not max(self._log_begin, self._full_from) <= position <= end:
            tracked = self._tracked.values()
            seen = tuple(each.vm for each in tracked if each.vm is not None and each.problem is None)
            return InventoryChange(cursor, True, seen, (), self._unreadable(self._tracked, is_full=True))
        keys = dict.fromkeys(self._log[position - self._log_begin :])
        updated, removed = [], []
        for key in keys:
            each = self._tracked.get(key)
            if each is None:
                removed.append(key)
            elif each.vm is not None and each.problem is None:
                updated.append(each.vm)
        return InventoryChange(
            cursor, False, tuple(updated), tuple(removed), self._unreadable(keys, is_full=False)
        )

    def _unreadable(self, keys: Iterable[VmKey], *, is_full: bool) -> tuple[tuple[str, str], ...]:
        """What is wrong with VMs, and in a full answer with the inventory."""
        found = {
            str(key): each.problem
            for key in keys
            if (each := self._tracked.get(key)) is not None and each.problem is not None
        }
        for problem in self._known.problems if is_full else ():
            found[problem.subject] = problem.text
        return tuple(found.items())

    def _begin_looks(self, *, is_due: bool) -> list[Future[None]]:
        """Have each VM looked at whose time has come, or all of them; the looks that are going on."""
        with self._turn:
            self._take_inventory(self._inventory.read())
        now = time.monotonic()
        with self._lock:
            for key, tracked in self._tracked.items():
                is_idle = tracked.look is None or tracked.look.done()
                if is_idle and (is_due or now >= tracked.due):
                    tracked.due = now + self._look_every_s
                    tracked.look = self._pool.submit(self._look_at, key, tracked)
            return [each.look for each in self._tracked.values() if each.look is not None]

    def _take_inventory(self, known: Known) -> None:
        with self._lock:
            if known is self._known:
                return
            if known.problems != self._known.problems:
                # Only a full answer takes back what was said to be wrong.
                self._note_change(None)
            self._known = known
            shown = {
                VmKey(key): entry
                for key, entry in known.entries.items()
                if self._namespace in (None, entry.namespace)
            }
            for key in [key for key in self._tracked if key not in shown]:
                del self._tracked[key]
                self._note_change(key)
            for key, entry in shown.items():
                tracked = self._tracked.get(key)
                if tracked is None or tracked.machine.entry != entry:
                    is_same = tracked is not None and _identity(tracked.machine.entry) == _identity(entry)
                    if tracked is None or not is_same:
                        self._tracked[key] = _Tracked(QemuMachine(entry), MemoryFloor(self._oom_hold_s))
                    else:
                        self._tracked[key] = _Tracked(QemuMachine(entry), tracked.floor, tracked.vm)

    def _look_at(self, key: VmKey, tracked: _Tracked) -> None:
        """One VM; what goes wrong is its own problem."""
        with self._lock:
            writes = tracked.writes
        try:
            sight = tracked.machine.look(timeout_s=self._look_limit_s)
        except PeerError as err:
            with self._lock:
                self._take_failure(key, tracked, err)
            return
        with self._lock:
            if self._tracked.get(key) is tracked and tracked.writes == writes:
                self._take_sight(tracked, sight)

    def _take_failure(self, key: VmKey, tracked: _Tracked, err: PeerError) -> None:
        tracked.failures += 1
        pause_s = self._look_every_s * 2 ** min(tracked.failures - 1, 8)
        tracked.due = time.monotonic() + max(min(pause_s, MAX_PAUSE_S), self._look_every_s)
        is_told = tracked.failures >= PATIENCE or tracked.vm is None or isinstance(err, PeerRefused)
        if is_told and tracked.problem != str(err) and self._tracked.get(key) is tracked:
            tracked.problem = str(err)
            self._note_change(key)

    def _take_sight(self, tracked: _Tracked, sight: Sight) -> None:
        tracked.failures = 0
        if sight.use is None:
            # It is migrating and its guest is silent: all else stays what it was.
            if tracked.vm is not None:
                self._put(tracked, replace(tracked.vm, migrating=sight.is_migrating))
            return
        observed = sight.observed if sight.observed is not None or tracked.vm is None else tracked.vm.observed
        vm = self._machine(tracked.machine.entry, sight.use, observed, sight.is_migrating)
        now = time.monotonic()
        if sight.guest is not None and tracked.floor.take(sight.guest, now):
            extra = {"vm": vm.key, "hold_s": self._oom_hold_s}
            logger.warning("the guest ran out of memory: it keeps its maximum for a while", extra=extra)
        if tracked.floor.is_raised(now):
            vm = replace(vm, min=Resources(vm.min.cpu, vm.max.mem))
        self._put(tracked, vm)

    def _put(self, tracked: _Tracked, vm: VirtualMachine) -> None:
        if tracked.vm != vm or tracked.problem is not None:
            tracked.vm, tracked.problem = vm, None
            self._note_change(vm.key)

    def _note_change(self, key: VmKey | None) -> None:
        """Under the lock. None: only a full answer will do."""
        if key is not None:
            self._log.append(key)
        else:
            self._log.append(VmKey(""))
            self._full_from = self._log_begin + len(self._log)
        if len(self._log) > _LOG_LENGTH:
            del self._log[: _LOG_LENGTH // 2]
            self._log_begin += _LOG_LENGTH // 2
        self._changed.set()

    def _machine(
        self, entry: VmEntry, use: Resources, observed: Resources | None, is_migrating: bool
    ) -> VirtualMachine:
        monitor, informant = entry.monitor or entry.guest, entry.informant or entry.guest
        is_observed = entry.mode == "observe" or entry.labels.get(self._observe_label or "") == "true"
        page = entry.metrics or entry.guest
        targets = entry.scaling
        return VirtualMachine(
            namespace=entry.namespace,
            name=entry.name,
            uid=_identity(entry),
            node=entry.node or self._node,
            min=resources(entry.min.milli_cpu, entry.min.size_bytes // entry.slot_bytes),
            max=resources(entry.max.milli_cpu, entry.max.size_bytes // entry.slot_bytes),
            use=use,
            observed=observed,
            slot_bytes=entry.slot_bytes,
            scaling_config=None
            if targets is None
            else ScalingConfig(targets.load_average_fraction_target, targets.memory_usage_fraction_target),
            mode=Mode.OBSERVE if is_observed else Mode.SCALE,
            monitor=MonitorPolicy.NONE if monitor in (None, "none") else MonitorPolicy.REQUIRED,
            metrics=None if page is None else host_port(page),
            monitor_address=None if monitor in (None, "none") else host_port(str(monitor)),
            migrating=is_migrating,
            endpoint_id=entry.billing_id,
            informant=None if informant in (None, "none") else host_port(str(informant)),
        )


def _identity(entry: VmEntry) -> str:
    """What tells two VMs apart that had one name."""
    return entry.uid or f"{entry.key}@{entry.qmp}"
