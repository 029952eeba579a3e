"""A worker's part that lets the names of its buckets in the cluster lead to it (`ownership.services`).

Beside the leases, never in their way: what fails here is told and tried again, and no VM waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from app.errors import OwnershipLost, VmscalerError
from app.ports.bucket_services import BucketServices
from app.ports.runtime import Concurrency, Signal
from app.ports.store import BucketName, FencingToken
from app.protocols.printable import printable
from app.services.guarding import Guards

logger = logging.getLogger(__name__)

CHECK_EVERY_S = 60.0
"""How often what is there is compared with what should be: somebody may have changed it."""

AGAIN_S = 5.0
"""Pause after a failure."""

REQUEST_S = 5.0
MAX_TOLD = 3


class HasPort(Protocol):
    """Our HTTP server."""

    @property
    def address(self) -> str | None:
        """`host:port`; None while it does not listen."""
        ...


class BucketNames:
    """Publishes our buckets when they come, and looks after them.

    Args:
        guards: the ownership service.
        server: where bucket's stats are taken in.
    """

    def __init__(
        self, services: BucketServices, guards: Guards, server: HasPort, concurrency: Concurrency
    ) -> None:
        self._services = services
        self._guards = guards
        self._server = server
        self._held: dict[BucketName, FencingToken] = {}
        self._has_news: Signal = concurrency.signal()
        self._problems: Mapping[BucketName, str] = {}
        self._problem = ""
        self._published = 0

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """One."""
        return {"bucket services": self.run}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Let its name lead to us, soon."""
        self._held[bucket] = token
        self._has_news.set()

    def lost(self, bucket: BucketName) -> None:
        """Its next holder writes; until then the name leads here, where stats are forwarded."""
        self._held.pop(bucket, None)

    def counters(self) -> Mapping[str, int]:
        """How often everything was compared."""
        return {"bucket_services": self._published}

    def problems(self) -> list[str]:
        """Why names may not lead to us."""
        told = [self._problem] if self._problem else []
        told += [text for bucket, text in self._problems.items() if bucket in self._held][:MAX_TOLD]
        return [printable(f"services of buckets: {text}", 400) for text in told]

    def run(self, stop: Signal) -> None:
        """Until stopped."""
        while not stop.is_set():
            self._has_news.clear()
            is_well = self.look()
            left_s = CHECK_EVERY_S if is_well else AGAIN_S
            while left_s > 0 and not stop.is_set() and not (is_well and self._has_news.is_set()):
                stop.wait(1.0)
                left_s -= 1.0

    def look(self) -> bool:
        """Compare and repair once; whether all is as it should be."""
        port = (self._server.address or "").rpartition(":")[2]
        if not self._held:
            self._problem, self._problems = "", {}
            return True
        if not port:
            return False
        before = self._problem, self._problems
        try:
            self._problems = self._services.publish(dict(self._held), int(port), self._limit_s)
            self._problem = ""
            self._published += 1
        except VmscalerError as err:
            self._problem = str(err)
        if (self._problem or self._problems) and before != (self._problem, self._problems):
            logger.warning("buckets' services not written", extra={"reason": "; ".join(self.problems())})
        return not self._problem and not self._problems

    def _limit_s(self, bucket: BucketName, token: FencingToken) -> float | None:
        """How long a request may take; None where the bucket is not ours under this token."""
        try:
            guard = self._guards.guard(bucket)
            return guard.limit_s(REQUEST_S) if guard.token == token else None
        except OwnershipLost:
            return None
