"""How a process ends: gracefully at the first SIGTERM or SIGINT, within a bound, at once at the second.

The bound is kept by a thread of the kernel: whatever the process hangs in, it ends. Exit statuses:
docs/operations.md.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from app.adapters.native_thread import end_process, start_native_thread

EXIT_GRACE_OVER = 124
"""It had not ended when its grace period was over; what it held expires by itself. As timeout(1) has it."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

Handler = Callable[[int, FrameType | None], object]


def end_within(grace_s: float, begin: Callable[[], object] | None = None) -> None:
    """Bound the end of this process; called in the main thread, after other handlers have been installed.

    Args:
        grace_s: from the first signal on.
        begin: begins the end, or raises SystemExit; must not wait. None: the handlers that are installed now
            do it.
    """
    ending = _Ending(grace_s)
    for number in SIGNALS:
        installed = signal.getsignal(number)
        first: Handler | None = installed if callable(installed) else None
        if begin is not None:
            first = _without_arguments(begin)
        if first is not None:
            signal.signal(number, ending.handler(first))


def _without_arguments(begin: Callable[[], object]) -> Handler:
    return lambda number, frame: begin()


class _Ending:
    """The signals of one process."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._is_begun = False

    def handler(self, first: Handler) -> Handler:
        def handle(number: int, frame: FrameType | None) -> None:
            if self._is_begun:
                _end_at_once(number)
            self._is_begun = True
            self._start_timer()
            try:
                first(number, frame)
            finally:
                # The first handler may have put another one in place for the next signal.
                for each in SIGNALS:
                    signal.signal(each, handle)

        return handle

    def _start_timer(self) -> None:
        def over() -> bool:
            end_process(EXIT_GRACE_OVER, f"not ended within {self._grace_s:g} s of the signal: ended now")
            return True

        start_native_thread(over, self._grace_s)


def _end_at_once(number: int) -> None:
    """As the shell tells of a process that a signal has ended: 128 and the signal's number."""
    name = signal.Signals(number).name
    try:
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{name} again: ended at once\n".encode())
    finally:
        os._exit(128 + number)
