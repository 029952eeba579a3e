"""A worker's part that tells which leases can't be read or followed; the others are worked on meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from app.ports.runtime import Signal
from app.ports.store import BucketName, FencingToken
from app.protocols.printable import printable

logger = logging.getLogger(__name__)

MAX_TOLD = 5
LOOK_EVERY_S = 1.0


class LeaseProblems:
    """A part of the agent that only tells.

    Args:
        read: what is wrong now, a sentence each.
    """

    def __init__(self, read: Callable[[], list[str]]) -> None:
        self._read = read
        self._logged: frozenset[str] = frozenset()

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """One that logs each problem once, and again when it has come back."""
        return {"lease problems": self._run}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Nothing is kept by bucket."""

    def lost(self, bucket: BucketName) -> None:
        """Nothing is kept by bucket."""

    def counters(self) -> Mapping[str, int]:
        """How many there are now."""
        return {"lease_problems": len(self._read())}

    def problems(self) -> list[str]:
        """The first ones, and how many there are."""
        found = self._read()
        told = [printable(text, 400) for text in found[:MAX_TOLD]]
        rest = len(found) - MAX_TOLD
        return [*told, f"… and {rest} more leases"] if rest > 0 else told

    def _run(self, stop: Signal) -> None:
        while not stop.wait(LOOK_EVERY_S):
            found = frozenset(self._read())
            for text in sorted(found - self._logged)[:MAX_TOLD]:
                logger.warning("lease problem", extra={"reason": printable(text, 400)})
            self._logged = found
