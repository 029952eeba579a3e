"""Threads and clock of the standard library, for parts that are used outside of a worker.

In a process that gevent has patched these are greenlets; without it, real threads. Who uses them guards his
state with a lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from app.core.model import Millis
from app.ports.runtime import Job, Monotonic, Signal

logger = logging.getLogger(__name__)


class ThreadJob:
    """A thread; it can't be cancelled, only waited for."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def join(self, timeout_s: float | None = None) -> bool:
        """See `Job.join`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """A thread ends by itself."""


class PlainThreads:
    """`Concurrency` on threads."""

    def spawn(self, name: str, run: Callable[[], None]) -> Job:
        """See `Concurrency.spawn`."""

        def guarded() -> None:
            try:
                run()
            except Exception:
                logger.exception("job failed", extra={"job": name})

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return ThreadJob(thread)

    def signal(self) -> Signal:
        """See `Concurrency.signal`."""
        return threading.Event()

    def sleep(self, seconds: float) -> None:
        """See `Concurrency.sleep`."""
        time.sleep(seconds)


class PlainClock:
    """The `Clock` of this process."""

    def wall_ms(self) -> Millis:
        """See `Clock.wall_ms`."""
        return Millis(time.time_ns() // 1_000_000)

    def monotonic(self) -> Monotonic:
        """See `Clock.monotonic`."""
        return Monotonic(time.monotonic())
