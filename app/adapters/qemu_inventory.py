"""Which VMs there are: those of an inventory file, and those that were started on this machine.

Both are read again when they change. What can't be read is told; a VM whose entry was right before and is
wrong now goes on with the entry that was right, so that a typing mistake never looks like a deleted VM.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.adapters.qemu_directory import running_entries
from app.config.vm_inventory import InventoryFile, InventoryProblem, VmEntry, read_inventory

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Known:
    """The VMs that there are, by key, and what is wrong.

    Attributes:
        version: another one whenever anything is different.
    """

    entries: dict[str, VmEntry]
    problems: tuple[InventoryProblem, ...]
    version: int


class QemuInventory:
    """Reads both sources; not for two threads at once.

    Args:
        file: the inventory file; None: there is none.
        state: the directory of the VMs started here; None: none are looked for.
    """

    def __init__(self, file: Path | None, state: Path | None) -> None:
        self._file = file
        self._state = state
        self._stamp: Stamp | None = None
        self._read: InventoryFile = InventoryFile((), ())
        self._good: dict[str, VmEntry] = {}
        self._known = Known({}, (), 0)

    def read(self) -> Known:
        """What there is now; cheap while nothing has changed."""
        if self._file is not None:
            self._read_file(self._file)
        entries = dict(self._good)
        problems = list(self._read.problems)
        local = InventoryFile((), ()) if self._state is None else running_entries(self._state)
        problems += local.problems
        for entry in local.entries:
            if entry.key in entries:
                text = f"{entry.key}: started on this machine, and in {self._file} too; the file counts"
                problems.append(InventoryProblem(f"{entry.key} (local)", text))
            else:
                entries[entry.key] = entry
        # What stands in a directory that can't be read just now is still there.
        unsure = {problem.subject for problem in local.problems}
        for key, entry in self._known.entries.items():
            is_local = self._state is not None and entry.qmp.startswith(f"{self._state}/")
            if is_local and (key in unsure or not local.is_readable):
                entries.setdefault(key, entry)
        if entries != self._known.entries or tuple(problems) != self._known.problems:
            self._known = Known(entries, tuple(problems), self._known.version + 1)
        return self._known

    def _read_file(self, file: Path) -> None:
        stamp = _stamp(file)
        if stamp is not None and stamp == self._stamp:
            return
        self._read, self._stamp = read_inventory(file), stamp
        if not self._read.is_readable:
            return
        wrong = {problem.subject for problem in self._read.problems}
        kept = {key: entry for key, entry in self._good.items() if key in wrong}
        self._good = {entry.key: entry for entry in self._read.entries}
        taken = {entry.qmp for entry in self._read.entries}
        for key, entry in kept.items():
            if entry.qmp not in taken:
                self._good.setdefault(key, entry)


def _stamp(file: Path) -> Stamp | None:
    """Changes with the file's content, also where an editor has put a new file in its place."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
