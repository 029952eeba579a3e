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
    if vm.use == before.use or writer is None or writer == OUR_MANAGER:
        return
    asked = size_text(vm.use, vm.slot_bytes)
    why = f"another writer, {writer}, has set the size to {asked}: only one may scale a VM"
    runner.note("other_writer", before.use, vm.use, why, "changed")
