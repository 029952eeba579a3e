"""The platform port: list and watch VMs, read a VM's observed size, apply a size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol

from app.core.resources import Resources
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey

Cursor = NewType("Cursor", str)
"""Where a watch has got to; opaque, the platform's own."""


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """What `Platform.changes` saw.

    Attributes:
        cursor: give it to the next call.
        is_full: `updated` is the whole fleet; what isn't in it is gone.
        updated: VMs that are new or changed.
        removed: keys of VMs that are gone; one that is in `updated` or `unreadable` as well was made anew.
        unreadable: (which VM, what is wrong with it) of VMs that were skipped; what was known of them stays.
    """

    cursor: Cursor
    is_full: bool
    updated: tuple[VirtualMachine, ...]
    removed: tuple[VmKey, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


class Platform(Protocol):
    """Where VMs come from and what changes their size. Calls block; each has its own time limit."""

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        """Wait up to `wait_s` for changes since `cursor`; with None, or a cursor too old, the whole fleet.

        Raises:
            PeerError: ask again after a pause; what was known stays.
        """
        ...

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        """The size that the VM really has now.

        Raises:
            PeerError: unknown; nothing may be concluded.
        """
        ...

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        """Ask for a size. Returning means accepted, not applied: look at the observed size.

        `vm.use` is the basis: a platform that can, refuses if another writer has changed it.
        `token` is refused if it is older than one seen for that VM.

        Raises:
            PeerRefused: nothing changed.
            PeerTimedOut: it may have taken effect.
            PeerUnreachable: nothing changed.
        """
        ...

    def close(self) -> None:
        """Close all connections; called once."""
        ...
