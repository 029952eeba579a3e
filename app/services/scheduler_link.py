"""Which scheduler is in charge, for all VMs of this worker; a change is told to every core."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.errors import PeerError, PeerRefused
from app.ports.peers import SchedulerInfo, SchedulerWatch
from app.ports.runtime import Signal

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""How often a worker asks which scheduler is in charge."""

TOLD_FAILURES = 5
"""Looks in a row that may fail before it is told."""


class SchedulerLink:
    """Follows the scheduler.

    Attributes:
        generation: grows with each change; an answer that belongs to an earlier one must not touch a core.
        problem: why it can't be looked up, for an operator; "" while it can.

    Args:
        changed: called after a change, with whether there is one now.
    """

    def __init__(self, watch: SchedulerWatch, changed: Callable[[bool], None]) -> None:
        self._watch = watch
        self._changed = changed
        self._info: SchedulerInfo | None = None
        self.generation = 0
        self.problem = ""
        self._failures = 0

    def current(self) -> tuple[SchedulerInfo | None, int]:
        """The scheduler in charge, and its generation."""
        return self._info, self.generation

    def look(self) -> None:
        """Ask once; when there is no answer, what was known stays."""
        try:
            info = self._watch.current()
        except PeerError as err:
            self._failed(err)
            return
        if self.problem:
            logger.info("scheduler is looked up again")
        self._failures, self.problem = 0, ""
        if info == self._info:
            return
        logger.info("scheduler changed", extra={"scheduler": None if info is None else info.name})
        self._info = info
        self.generation += 1
        self._changed(info is not None)

    def _failed(self, err: PeerError) -> None:
        """Told once it has lasted; a right that is missing at once, since that does not end by itself."""
        self._failures += 1
        is_denied = isinstance(err, PeerRefused) and err.code == 403
        if self._failures < TOLD_FAILURES and not is_denied:
            return
        problem = f"the scheduler can't be looked up: {err}"
        if problem != self.problem:
            logger.warning("scheduler not looked up", extra={"reason": str(err)[:400]})
        self.problem = problem

    def run(self, stop: Signal) -> None:
        """Look once a second until stopped."""
        while not stop.is_set():
            self.look()
            stop.wait(LOOK_EVERY_S)
