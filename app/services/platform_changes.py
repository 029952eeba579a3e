"""What a new description of a VM says beside its numbers: it migrates, or another writer sizes it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ports.vm import VirtualMachine
from app.protocols.managed_fields import OUR_MANAGER
from app.services.wording import size_text

if TYPE_CHECKING:
    from app.services.runner import Runner


def note_changes(runner: Runner, before: VirtualMachine, vm: VirtualMachine) -> None:
    """Put them in the audit trail; one that sets `use` beside us is the last fact too, so `explain` names it.

    A size set by a field manager of our name is taken for an earlier owner's of the bucket.
    """
    if before.migrating != vm.migrating:
        runner.audit.add("migrating" if vm.migrating else "migrated", why="the platform says so")
    writer = vm.use_writer
    is_changed = vm.use != before.use or vm.overwrites > before.overwrites
    if not is_changed or writer is None or writer == OUR_MANAGER:
        return
    asked = size_text(vm.use, vm.slot_bytes)
    if vm.use != before.use:
        origin, done = before.use, f"set the size to {asked}"
    else:
        # What we had asked for and what it has made of it were told as one.
        origin = before.use if runner.operation is None else runner.operation.target
        done = f"set the size back to {asked}"
    why = f"another writer, {writer}, has {done}: only one may scale a VM"
    runner.note("other_writer", origin, vm.use, why, "changed")
