"""Who set a VM's `use` last, as the API server keeps account of it in `.metadata.managedFields`."""

from __future__ import annotations

from app.protocols.object_fields import MAX_TEXT, Object, inner
from app.protocols.printable import printable

OUR_MANAGER = "vmscaler"
"""The `fieldManager` of our patches."""

MAX_ENTRIES = 100
"""Looked at; an object has a handful."""

_USES = (("f:spec", "f:guest", "f:cpus", "f:use"), ("f:spec", "f:guest", "f:memorySlots", "f:use"))


def use_writer(vm: Object) -> str | None:
    """The manager that wrote either `use` last; None where nothing is told.

    Of several that own the fields (server-side apply shares them) it is the one with the latest time, and of
    those of the same second one that is not us: who wrote is to be named, not excused.
    """
    entries = inner(vm, "metadata").get("managedFields")
    if not isinstance(entries, list):
        return None
    found = [
        (_text(entry, "time"), manager != OUR_MANAGER, manager)
        for entry in entries[:MAX_ENTRIES]
        if isinstance(entry, dict) and (manager := _text(entry, "manager")) and _owns_use(entry)
    ]
    return max(found)[2] if found else None


def _owns_use(entry: Object) -> bool:
    return any(_has(entry, path) for path in _USES)


def _has(entry: Object, path: tuple[str, ...]) -> bool:
    at = inner(entry, "fieldsV1")
    for name in path[:-1]:
        at = inner(at, name)
    return path[-1] in at


def _text(entry: Object, name: str) -> str:
    found = entry.get(name)
    return printable(found, MAX_TEXT) if isinstance(found, str) else ""
