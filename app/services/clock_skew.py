"""Notices VMs whose clocks are not ours, by the timestamps of the stats that they push.

A stat is under way for a moment and may have waited at the VM, so one that is old says little; when several
in a row are far off to the same side, the clock is. Stats are in the order of the VM's clock, so a wrong one
matters little until it is set right: one set back makes all late until it has caught up.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque

from app.protocols.printable import printable

logger = logging.getLogger(__name__)

OFF_MS = 5_000
"""A clock that is off by less is not worth a word."""

IN_A_ROW = 5
"""So many pushes must agree."""

MAX_VMS = 10_000
"""VMs that are watched, those that pushed last."""


class _Seen:
    def __init__(self) -> None:
        self.offsets_ms: deque[int] = deque(maxlen=IN_A_ROW)
        self.is_off = False


class ClockSkew:
    """One intake's view of the VMs' clocks."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def note(self, key: str, newest_ms: int, now_ms: int) -> None:
        """A VM has pushed; `newest_ms` is its newest timestamp. Each change is logged once."""
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_VMS:
            self._seen.popitem(last=False)
        seen.offsets_ms.append(newest_ms - now_ms)
        if len(seen.offsets_ms) < IN_A_ROW:
            return
        is_off = _least(seen.offsets_ms) > OFF_MS
        if is_off != seen.is_off:
            seen.is_off = is_off
            facts = {"vm": key, "offset_s": round(seen.offsets_ms[-1] / 1000)}
            if is_off:
                logger.warning("a VM's clock is not ours", extra=facts)
            else:
                logger.info("a VM's clock is right again", extra=facts)

    @property
    def problem(self) -> str:
        """A sentence for the operator; empty while all clocks agree."""
        off = {key: seen.offsets_ms[-1] for key, seen in self._seen.items() if seen.is_off}
        if not off:
            return ""
        key = min(off)
        side = "ahead" if off[key] > 0 else "behind"
        told = f"{printable(key, 80)} is {abs(off[key]) / 1000:.0f} s {side}"
        return f"the clocks of {len(off)} VMs that push stats are off: {told}"


def _least(offsets_ms: deque[int]) -> int:
    """How far off the clock is at least; 0 where the offsets are on both sides."""
    return max(min(offsets_ms), -max(offsets_ms), 0)
