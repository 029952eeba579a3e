"""The one place that reads clocks."""

from __future__ import annotations

import time

from app.core.model import Millis
from app.ports.runtime import Monotonic

# CLOCK_BOOTTIME goes on while the machine sleeps, which CLOCK_MONOTONIC does not: a lease ends meanwhile.
_MONOTONIC_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clocks, as the `Clock` port."""

    def wall_ms(self) -> Millis:
        """See `Clock.wall_ms`."""
        return Millis(time.time_ns() // 1_000_000)

    def monotonic(self) -> Monotonic:
        """See `Clock.monotonic`; counts while the process or the whole machine is suspended."""
        return Monotonic(time.clock_gettime(_MONOTONIC_CLOCK))
