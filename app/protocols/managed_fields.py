"""Who set a VM's `use` last, as the API server keeps account of it in `.metadata.managedFields`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.resources import Resources
from app.protocols.object_fields import MAX_TEXT, Object, inner
from app.protocols.printable import printable

OUR_MANAGER = "vmscaler"
"""The `fieldManager` of our patches."""

MAX_ENTRIES = 100
"""Looked at; an object has a handful."""

_CPU = ("f:spec", "f:guest", "f:cpus", "f:use")
_SLOTS = ("f:spec", "f:guest", "f:memorySlots", "f:use")


@dataclass(frozen=True, slots=True)
class UseWriters:
    """Who set each of the two fields of `use` last; None where nothing is told."""

    cpu: str | None = None
    slots: str | None = None

    def of_change(self, before: Resources, after: Resources) -> str | None:
        """Who made this change of `use`: the writer of what has changed, and of both one that is not us.

        The other field's writer is not to blame, even if he has done something else since.
        """
        return UseWriters(
            self.cpu if before.cpu != after.cpu else None, self.slots if before.mem != after.mem else None
        ).of_either()

    def of_either(self) -> str | None:
        """One of them, and one that is not us, if there is such."""
        named = [writer for writer in (self.cpu, self.slots) if writer is not None]
        return next((writer for writer in named if writer != OUR_MANAGER), named[0] if named else None)


NOBODY = UseWriters()


def use_writers(vm: Object) -> UseWriters:
    """The managers that wrote `use` last, as far as the object tells.

    Of several that own a field (server-side apply shares them) it is the one with the latest time, and of
    those of the same second one that is not us: who wrote is to be named, not excused.
    """
    entries = inner(vm, "metadata").get("managedFields")
    if not isinstance(entries, list):
        return NOBODY
    known = [entry for entry in entries[:MAX_ENTRIES] if isinstance(entry, dict)]
    return UseWriters(_writer(known, _CPU), _writer(known, _SLOTS))


def _writer(entries: Sequence[Object], path: tuple[str, ...]) -> str | None:
    found = [
        (_text(entry, "time"), manager != OUR_MANAGER, manager)
        for entry in entries
        if (manager := _text(entry, "manager")) and _has(entry, path)
    ]
    return max(found)[2] if found else None


def _has(entry: Object, path: tuple[str, ...]) -> bool:
    at = inner(entry, "fieldsV1")
    for name in path[:-1]:
        at = inner(at, name)
    return path[-1] in at


def _text(entry: Object, name: str) -> str:
    found = entry.get(name)
    return printable(found, MAX_TEXT) if isinstance(found, str) else ""
