"""Where a platform's users are told that one of their VMs can't be read."""

from __future__ import annotations

from typing import Protocol

from app.ports.vm import VmKey


class VmReports(Protocol):
    """Puts a warning beside the VM's description, where the platform has a place for it."""

    def warn(self, key: VmKey, problem: str, *, timeout_s: float) -> None:
        """Say what is wrong with it; the same again says nothing new.

        Raises:
            PeerError: nobody was told.
        """
        ...
