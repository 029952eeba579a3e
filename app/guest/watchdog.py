"""Ends the process when a lock can't be had any more, so that it is started anew (`spec/informant.md`)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

LOCK_LIMIT_S = 0.25
"""For the lock to be had."""
CHECK_EVERY_S = 1.0
STATUS = 70
"""Of a process that the watchdog ends: EX_SOFTWARE."""


def end_process(text: str) -> None:
    """Leave at once, without any cleaning up that could hang too."""
    sys.stderr.write(f"vmscaler guest: {text}\n")
    sys.stderr.flush()
    os._exit(STATUS)


class Watchdog:
    """A thread that takes the lock every second and gives it back.

    Args:
        lock: what it watches.
        name: of what the lock guards, for the message.
        on_stuck: called with the message, once.
    """

    def __init__(
        self,
        lock: threading.Lock,
        name: str,
        *,
        limit_s: float = LOCK_LIMIT_S,
        every_s: float = CHECK_EVERY_S,
        on_stuck: Callable[[str], None] = end_process,
    ) -> None:
        self._lock = lock
        self._name = name
        self._limit_s = limit_s
        self._every_s = every_s
        self._on_stuck = on_stuck
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watchdog-{name}", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; a second time does nothing."""
        self._stopping.set()
        self._thread.join(self._limit_s + 1)

    def _watch(self) -> None:
        while not self._stopping.wait(self._every_s):
            if not self._lock.acquire(timeout=self._limit_s):
                self._on_stuck(
                    f"the lock of {self._name} could not be had within {self._limit_s:g} s: ending"
                )
                return
            self._lock.release()
