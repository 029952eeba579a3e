"""The one place that reads clocks."""

from __future__ import annotations

import time

from app.core.model import Millis
from app.ports.runtime import Monotonic


class SystemClock:
    """The `Clock` of this machine."""

    def wall_ms(self) -> Millis:
        """See `Clock.wall_ms`."""
        return Millis(time.time_ns() // 1_000_000)

    def monotonic(self) -> Monotonic:
        """See `Clock.monotonic`; counts while the process is stopped, not while the machine sleeps."""
        return Monotonic(time.monotonic())
