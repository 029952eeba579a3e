"""How long ago this guest's kernel killed a process because memory ran out.

The kernel counts such kills and tells no time; whoever reads the page regularly gives the times. The guest
tells it, so that it outlives whoever scales it.
"""

from __future__ import annotations

import time
from pathlib import Path

from app.guest.procfs import PROC, read_oom_kills


class OomWatch:
    """Notes when the count of kills rises; `age_s` is called for each page.

    Args:
        root: where /proc is.
    """

    def __init__(self, root: Path = PROC) -> None:
        self._root = root
        self._count = read_oom_kills(root)
        self._last: float | None = None

    def age_s(self) -> float | None:
        """Seconds since the page that first showed the last kill; None: none was seen since we began."""
        count, now = read_oom_kills(self._root), time.monotonic()
        if count is not None and self._count is not None and count > self._count:
            self._last = now
        self._count = count
        return None if self._last is None else now - self._last
