"""A clock that stands still until it is told to go on."""

from __future__ import annotations

from app.core.model import Millis
from app.ports.runtime import Monotonic


class FakeClock:
    """A `Clock`; wall and monotonic time go on together by `advance`, apart by `step_wall`."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic: float = 1_000.0) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic = monotonic

    def wall_ms(self) -> Millis:
        return Millis(int(self._wall_ms))

    def monotonic(self) -> Monotonic:
        return Monotonic(self._monotonic)

    def advance(self, seconds: float) -> None:
        self._wall_ms += seconds * 1000
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Somebody has set the wall clock."""
        self._wall_ms += seconds * 1000
