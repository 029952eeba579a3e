"""VMs of our buckets whose description can't be read: each is reported once per change, by its owner only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from app.errors import PeerError
from app.ports.runtime import Signal
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.ports.vm_reports import VmReports
from app.protocols.printable import printable
from app.services.inventory import Inventory

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
REPORT_TIMEOUT_S = 10.0

RETRY_S = 30.0
"""After a report that failed; a right that is missing is not asked for every second."""

MAX_SHOWN = 50
"""In the registry, whose entries are small."""

MAX_TEXT = 300
"""Characters of what is wrong, where it is shown."""


class UnreadableVms:
    """A part of the agent.

    Args:
        bucket_of: the bucket that a VM belongs to.
        reports: where the platform takes reports; None: it has no place for them.
    """

    def __init__(
        self, inventory: Inventory, bucket_of: Callable[[VmKey], BucketName], reports: VmReports | None
    ) -> None:
        self._inventory = inventory
        self._bucket_of = bucket_of
        self._reports = reports
        self._held: set[BucketName] = set()
        self._told: dict[str, str] = {}
        self._problem = ""

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """One, where there is somebody to report to."""
        return {} if self._reports is None else {"unreadable VMs": self.run}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Its unreadable VMs are ours to report."""
        self._held.add(bucket)

    def lost(self, bucket: BucketName) -> None:
        """Another owner reports them."""
        self._held.discard(bucket)

    def counters(self) -> Mapping[str, int]:
        """How many there are."""
        return {"unreadable_vms": len(self.ours())}

    def ours(self) -> dict[str, str]:
        """What is wrong with each, by name."""
        found = self._inventory.unreadable
        return {name: what for name, what in found.items() if self._bucket_of(VmKey(name)) in self._held}

    def shown(self) -> dict[str, str]:
        """As `ours`, for the registry: the first of them by name, cut."""
        ours = sorted(self.ours().items())[:MAX_SHOWN]
        return {printable(name, MAX_TEXT): printable(what, MAX_TEXT) for name, what in ours}

    def problems(self) -> list[str]:
        """Why they can't be reported; how many there are is told by the agent itself."""
        return [self._problem] if self._problem else []

    def run(self, stop: Signal) -> None:
        """Report until stopped what is new; what could not be reported is tried again later."""
        pause = LOOK_EVERY_S
        while not stop.wait(pause):
            pause = LOOK_EVERY_S if self.report() else RETRY_S

    def report(self) -> bool:
        """Report all that has not been; false: no report is taken now, so the rest waits."""
        ours = self.ours()
        self._told = {name: what for name, what in self._told.items() if name in ours}
        for name, what in ours.items():
            if self._told.get(name) == what or self._reports is None:
                continue
            try:
                self._reports.warn(VmKey(name), what, timeout_s=REPORT_TIMEOUT_S)
            except PeerError as err:
                self._say(f"unreadable VMs not reported on their objects: {err}")
                return False
            self._told[name] = what
        self._say("")
        return True

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            logger.warning("VMs not reported", extra={"reason": printable(problem)})
        self._problem = problem and printable(problem, MAX_TEXT)
