"""A thread of the kernel beside the loop of greenlets, that runs also while nothing else does.

What runs in it may use nothing that gevent has patched: no lock, no socket, no logging; or has a loop of its
own there, see `start_native`.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable

import gevent.monkey

MAX_LINE = 1_000
"""Characters of last words."""


def start_native_thread(turn: Callable[[], bool], every_s: float) -> None:
    """Call `turn` again and again, until it says True; an error in it ends the thread with a trace.

    Args:
        turn: must not wait for anything.
        every_s: pause between two calls; a process that is stopped has no turns.
    """
    sleep = gevent.monkey.get_original("time", "sleep")
    start = gevent.monkey.get_original("_thread", "start_new_thread")

    def run() -> None:
        while True:
            sleep(every_s)
            if turn():
                return

    start(run, ())


def start_native(run: Callable[[], None]) -> None:
    """Call `run` in such a thread; it may use gevent there, whose loop is another one in each thread.

    An error that leaves it ends the thread with a trace on standard error.
    """
    gevent.monkey.get_original("_thread", "start_new_thread")(run, ())


def end_process(status: int, last_words: str) -> None:
    """End this process at once, after a line and the stacks of its threads on standard error.

    Nothing is cleaned up: whatever would do it may be what is stuck.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    line = f"{stamp} CRITICAL watchdog: {last_words}"[:MAX_LINE] + "\n"
    try:
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode(errors="replace"))
        faulthandler.dump_traceback(sys.__stderr__ or 2)
    finally:
        os._exit(status)
