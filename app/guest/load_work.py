"""The load itself, a process of its own: `python3 -m app.guest.load_work MILLI_CPU BYTES RATE SECONDS`.

CPUs are kept busy by a process each, a part of one by working that share of the time. Memory grows evenly, by
RATE bytes a second, is written to, and is kept. All of it ends when its time is over or who started it has
gone; and it is what the kernel takes first when memory runs out.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import time
from pathlib import Path

SLICE_S = 0.1
"""In which a part of a CPU is worked; also how often time and parent are looked at."""
_GROW_EVERY_S = 0.1
_PAGE = 4096
_FIRST_TO_GO = "1000"


def main(words: list[str]) -> int:
    """Do what the arguments say until the time is over; the exit status."""
    milli_cpu, size, rate, seconds = (int(word) for word in words)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    with contextlib.suppress(OSError):
        # Whoever started us may run before others; a load does not.
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    until = time.monotonic() + seconds
    shares = [1.0] * (milli_cpu // 1000) + ([milli_cpu % 1000 / 1000] if milli_cpu % 1000 else [])
    workers = [_begin_worker(share, until) for share in shares]
    try:
        hold_memory(size, rate, until)
    finally:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return 0


def work(share: float, until: float) -> None:
    """Keep a CPU busy for that share of the time, while the parent lives."""
    parent = os.getppid()
    while (now := time.monotonic()) < until and os.getppid() == parent:
        busy_until = now + SLICE_S * share
        while time.monotonic() < busy_until:
            pass
        if share < 1:
            time.sleep(SLICE_S * (1 - share))


def hold_memory(size: int, rate: int, until: float) -> None:
    """Take memory, `rate` bytes a second up to `size`, and keep it while the parent lives."""
    parent = os.getppid()
    begun = time.monotonic()
    held: list[mmap.mmap] = []
    taken = 0
    while (now := time.monotonic()) < until and os.getppid() == parent:
        wanted = min(size, int((now - begun) * rate)) // _PAGE * _PAGE
        if wanted > taken:
            block = mmap.mmap(-1, wanted - taken, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for offset in range(0, wanted - taken, _PAGE):
                block[offset] = 1
            held.append(block)
            taken = wanted
        time.sleep(max(min(_GROW_EVERY_S, until - time.monotonic()), 0))


def _begin_worker(share: float, until: float) -> int:
    """A child that works; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work(share, until)
        finally:
            os._exit(0)
    return pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
