"""Pages of our own processes, as the operator's commands read them."""

from __future__ import annotations

from typing import Protocol


class PageReader(Protocol):
    """Asks workers, schedulers and beats of the fleet; may be used by several threads."""

    def read(self, kind: str, address: str, path: str, *, timeout_s: float, max_bytes: int) -> bytes:
        """The body of a page.

        Args:
            kind: of the process: worker, beat or scheduler, which says what lets us in.
            address: `host:port`, as the registry has it.

        Raises:
            PeerError: no 200, nothing in time, or more than `max_bytes`.
        """
        ...
