"""The fleet as the platform tells it, kept up to date by one job per worker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.errors import PeerError, PeerRefused
from app.ports.platform import Cursor, InventoryChange, Platform
from app.ports.runtime import Signal
from app.ports.vm import VirtualMachine, VmKey

logger = logging.getLogger(__name__)

WATCH_WAIT_S = 5.0
"""How long one question for changes may stay open."""

GATHER_S = 0.2
"""Changes in quick succession are taken as one: a question for each would cost more than all the polls."""

MAX_BACKOFF_S = 5.0


class Inventory:
    """Follows the platform's VMs.

    Attributes:
        vms: every VM that the platform has told of and not taken back.
        unreadable: what is wrong with VMs that are there, but can't be read, by name.
        is_ready: a whole list has been read once.
        problem: why nothing new is known, "" while all is well.
        turns: questions to the platform that have ended, with or without an answer.
        answers: of the platform so far; while this stands still, what is known grows old.

    Args:
        updated: called for each new or changed VM.
        removed: called for each VM that is gone.
        listed: called after each whole list.
        spread: between 0 and 1, this worker's own; spreads the retries of several workers.
    """

    def __init__(
        self,
        platform: Platform,
        updated: Callable[[VirtualMachine], None],
        removed: Callable[[VmKey], None],
        listed: Callable[[], None],
        spread: float,
    ) -> None:
        self._platform = platform
        self._updated = updated
        self._removed = removed
        self._listed = listed
        self._spread = spread
        self._cursor: Cursor | None = None
        self.vms: dict[VmKey, VirtualMachine] = {}
        self.unreadable: dict[str, str] = {}
        self.is_ready = False
        self.problem = ""
        self.turns = 0
        self.answers = 0

    def run(self, stop: Signal) -> None:
        """Follow until stopped; a platform that is away is asked again, with growing pauses."""
        pause = 0.25
        while not stop.is_set():
            try:
                change = self._platform.changes(self._cursor, wait_s=WATCH_WAIT_S)
            except PeerError as err:
                self.turns += 1
                self._say(str(err))
                if isinstance(err, PeerRefused):
                    # What can't be read from here on may be readable from the beginning.
                    self._cursor = None
                stop.wait(pause * (0.8 + 0.4 * self._spread))
                pause = min(pause * 2, MAX_BACKOFF_S)
                continue
            self.turns += 1
            self._say("")
            pause = 0.25
            self.take(change)
            if change.updated or change.removed:
                stop.wait(GATHER_S)

    def take(self, change: InventoryChange) -> None:
        """Take one answer in."""
        self._cursor = change.cursor
        for name, problem in change.unreadable:
            if self.unreadable.get(name) != problem:
                logger.warning(
                    "VM skipped: it can't be read", extra={"vm": name[:200], "reason": problem[:200]}
                )
        self.unreadable = (
            dict(change.unreadable) if change.is_full else self.unreadable | dict(change.unreadable)
        )
        seen = set()
        for vm in change.updated:
            seen.add(vm.key)
            self.unreadable.pop(vm.key, None)
            before = self.vms.get(vm.key)
            if before is not None and before.uid != vm.uid:
                self._remove(vm.key)
            self.vms[vm.key] = vm
            if before != vm:
                self._tell(vm)
        unreadable = dict(change.unreadable)
        gone = [key for key in change.removed if key not in seen]
        if change.is_full:
            gone += [key for key in self.vms if key not in seen and key not in unreadable]
        for key in gone:
            if key not in unreadable:
                self.unreadable.pop(key, None)
            self._remove(key)
        self.answers += 1
        if change.is_full:
            self.is_ready = True
            self._listed()

    def _tell(self, vm: VirtualMachine) -> None:
        """One VM's failure keeps no other from being told; it is told again with its next change."""
        try:
            self._updated(vm)
        except Exception:
            self.vms.pop(vm.key, None)
            logger.exception("VM not taken in", extra={"vm": vm.key})

    def _remove(self, key: VmKey) -> None:
        if self.vms.pop(key, None) is not None:
            self._removed(key)

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            if problem:
                logger.warning("inventory not readable", extra={"reason": problem[:200]})
            else:
                logger.info("inventory readable")
