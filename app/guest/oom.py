"""How long ago this guest's kernel killed a process because memory ran out.

The kernel counts such kills and tells no time; whoever reads the page regularly gives the times. The guest
tells it, so that it outlives whoever scales it.
"""

from __future__ import annotations

import time
from pathlib import Path

from app.guest.procfs import PROC, read_oom_kills

AGE_METRIC = "vmscaler_guest_oom_kill_age_seconds"
"""Absent where none was seen since the daemon began."""


class OomWatch:
    """Notes when the count of kills rises; `page_lines` is called with each page.

    Args:
        root: where /proc is.
    """

    def __init__(self, root: Path = PROC) -> None:
        self._root = root
        self._count = read_oom_kills(root)
        self._last: float | None = None

    def page_lines(self) -> bytes:
        """The age in Prometheus text, counted from the page that first showed the kill; empty without one."""
        count, now = read_oom_kills(self._root), time.monotonic()
        if count is not None and self._count is not None and count > self._count:
            self._last = now
        self._count = count
        if self._last is None:
            return b""
        help_text = "Seconds since the kernel was seen to kill a process for want of memory."
        lines = (
            f"# HELP {AGE_METRIC} {help_text}",
            f"# TYPE {AGE_METRIC} gauge",
            f"{AGE_METRIC} {now - self._last:.1f}",
        )
        return ("\n".join(lines) + "\n").encode("ascii")
