"""Keeps the pauses of Python's cyclic collector short in a process that holds very much.

A full pass looks at everything that is alive: 0.35 s of CPU at once in a worker with 2,000 VMs, every 12 s,
and next to nothing of it is garbage. Here each full pass puts what it has looked at aside (`gc.freeze`), so
that the next one looks at what is new since: 0.05 s. Cycles among what was put aside are found by a pass over
everything, now and then.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

WHOLE_EVERY_S = 600.0
"""Time after which a full pass looks at everything again; a few thousand objects were garbage by then."""

THRESHOLDS = (700, 10, 2)
"""Python's own, but for the last: full passes come three times as often, and are as much shorter."""

FULL = 2
"""The generation of a full pass."""


class ShortCollections:
    """Hears of each pass; called by the collector itself, wherever something is made, in any thread.

    Args:
        now: seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._whole_at = now()

    def install(self) -> None:
        """From now on, for the whole process."""
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self.note)

    def note(self, phase: str, info: Mapping[str, int]) -> None:
        """Put aside what a full pass has left; or, when it is time, let the next one see everything."""
        if phase != "stop" or info["generation"] != FULL:
            return
        now = self._now()
        if now - self._whole_at < WHOLE_EVERY_S:
            gc.freeze()
        else:
            self._whole_at = now
            gc.unfreeze()
