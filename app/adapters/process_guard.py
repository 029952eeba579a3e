"""The guard of another process's children: run as a script, it outlives a process that was killed.

It reads its standard input, whose other end that process holds: `+PID` and `-PID` lines name the process
groups that exist, `done` says that all is tidy. If the input ends without `done`, it is dead:
the guard kills the process groups and removes the directory given as its argument.

Run by file name, with no package on its path, so that it starts in a few milliseconds and stays small.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

GONE_WITHIN_S = 3.0
"""How long killed groups may take to disappear before the directory is removed all the same."""


def read_groups(lines: Iterable[str]) -> set[int] | None:
    """The process groups that existed when the input ended, or None if it ended with `done`."""
    groups: set[int] = set()
    for line in lines:
        word = line.strip()
        if word == "done":
            return None
        if word[:1] == "+":
            groups.add(int(word[1:]))
        elif word[:1] == "-":
            groups.discard(int(word[1:]))
    return groups


def kill_groups(groups: Iterable[int]) -> set[int]:
    """Kill each group; returns those that had someone to kill."""
    killed = set()
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
            killed.add(group)
    return killed


def main() -> None:
    """Wait for the end of the guarded process, then tidy up if it could not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups = read_groups(sys.stdin)
    if groups is None:
        return
    deadline = time.monotonic() + GONE_WITHIN_S
    while kill_groups(groups) and time.monotonic() < deadline:
        time.sleep(0.02)
    for directory in sys.argv[1:]:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
