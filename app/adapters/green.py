"""Cooperative jobs on gevent, as the `Concurrency` port.

Blocks nothing only where the process has been patched (`-P gevent` does it before anything is imported).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import Event

logger = logging.getLogger(__name__)

SHORTEST_SLEEP_S = 0.0001
"""`gevent.sleep(0)` goes on with callbacks like itself fifty times before it looks at sockets and timers."""


class GreenJob:
    """A greenlet."""

    def __init__(self, greenlet: Any) -> None:
        self._greenlet = greenlet

    def join(self, timeout_s: float | None = None) -> bool:
        """See `Job.join`."""
        self._greenlet.join(timeout_s)
        return bool(self._greenlet.ready())

    def cancel(self) -> None:
        """See `Job.cancel`; does not wait for the end."""
        self._greenlet.kill(block=False)


class GreenSignal:
    """A gevent event."""

    def __init__(self) -> None:
        self._event: Any = Event()

    def set(self) -> None:
        """See `Signal.set`."""
        self._event.set()

    def clear(self) -> None:
        """See `Signal.clear`."""
        self._event.clear()

    def is_set(self) -> bool:
        """See `Signal.is_set`."""
        return bool(self._event.is_set())

    def wait(self, timeout_s: float | None = None) -> bool:
        """See `Signal.wait`."""
        return bool(self._event.wait(timeout_s))


class GreenConcurrency:
    """Greenlets of this process' hub.

    Attributes:
        jobs: that have been spawned and have not ended.
    """

    def __init__(self) -> None:
        self.jobs = 0

    def spawn(self, name: str, run: Callable[[], None]) -> GreenJob:
        """See `Concurrency.spawn`; the name is the greenlet's in stack dumps too."""

        def guarded() -> None:
            try:
                run()
            except Exception:
                logger.exception("job failed", extra={"job": name})

        greenlet = gevent.Greenlet(guarded)
        greenlet.name = name
        self.jobs += 1
        # Also of one that is killed before it has begun.
        greenlet.rawlink(self._ended)
        greenlet.start()
        return GreenJob(greenlet)

    def _ended(self, greenlet: object) -> None:
        self.jobs -= 1

    def signal(self) -> GreenSignal:
        """See `Concurrency.signal`."""
        return GreenSignal()

    def sleep(self, seconds: float) -> None:
        """See `Concurrency.sleep`; sockets and timers have their turn each time, also at 0."""
        gevent.sleep(max(seconds, SHORTEST_SLEEP_S))
