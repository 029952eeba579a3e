"""A process' page for Prometheus: made in short stretches, by one at a time, for all who ask meanwhile.

What must be true: however many VMs there are, nothing else waits for it longer than a stretch; and however
many ask at once, there is one page in the making and one that is being read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.ports.own_metrics import PAGE_TIME
from app.ports.runtime import Clock, Concurrency, Signal
from app.protocols.metric_families import Family
from app.services.runner import Runner
from app.services.vm_series import VmSeries

logger = logging.getLogger(__name__)

STRETCH_S = 0.002
"""Then others have a turn; a stretch may be longer by what `VMS_A_LOOK` VMs take."""

VMS_A_LOOK = 32
"""VMs between two looks at the clock."""

PAUSE_S = 0.0005
"""Not 0: whoever waits for a socket or a timer is to have a turn, too."""

WAIT_S = 5.0
"""For a page that another asked for; after so long one of one's own is made."""


@dataclass(slots=True)
class _Page:
    """One in the making; without a text at its end it has failed, and whoever waited makes another."""

    is_over: Signal
    text: bytes | None = None


class MetricsPage:
    """Makes the page.

    Args:
        families: in the order of the page.
        read: sets the readings among them, in no time; what fails there is logged and left out.
        runners: of which the series are wanted; None: of none.
    """

    def __init__(
        self,
        families: Sequence[Family],
        clock: Clock,
        concurrency: Concurrency,
        read: Callable[[], None],
        runners: Callable[[], list[Runner]] | None = None,
    ) -> None:
        self._families = families
        self._clock = clock
        self._concurrency = concurrency
        self._read = read
        self._runners = runners
        self._series = VmSeries()
        self._under_way: _Page | None = None
        self._stretch_began = 0.0

    def text(self) -> bytes:
        """The page as of now; as of a moment ago for those who asked while it was made."""
        under_way = self._under_way
        if under_way is not None and under_way.is_over.wait(WAIT_S) and under_way.text is not None:
            return under_way.text
        mine = self._under_way = _Page(self._concurrency.signal())
        try:
            mine.text = self._make()
        finally:
            if self._under_way is mine:
                self._under_way = None
            mine.is_over.set()
        return mine.text

    def _make(self) -> bytes:
        began = self._stretch_began = self._clock.monotonic()
        try:
            self._read()
        except Exception:
            logger.exception("readings for the metrics page failed: a bug")
        pieces = []
        for family in self._families:
            pieces.append(family.text_now().encode())
            self._pause_if_due()
        pieces += self._vm_pieces()
        self._pause()
        page = b"".join(pieces)
        PAGE_TIME.set(self._clock.monotonic() - began)
        return page

    def _vm_pieces(self) -> list[bytes]:
        if self._runners is None:
            return []
        parts = []
        for number, runner in enumerate(self._runners(), start=1):
            if not runner.is_closed:
                parts.append(self._series.lines_of(runner))
            if number % VMS_A_LOOK == 0:
                self._pause_if_due()
        return self._series.whole(parts)

    def _pause_if_due(self) -> None:
        if self._clock.monotonic() - self._stretch_began >= STRETCH_S:
            self._pause()

    def _pause(self) -> None:
        self._concurrency.sleep(PAUSE_S)
        self._stretch_began = self._clock.monotonic()
