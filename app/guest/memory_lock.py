"""Keeps the daemon's memory from being swapped out: it must answer in the very guest that runs out of memory.

Done only where no limit applies (`RLIMIT_MEMLOCK` unlimited, or CAP_IPC_LOCK): below a limit, locking what is
allocated later would make allocations fail. No limit of any kind is ever set.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable
from pathlib import Path

_MCL_CURRENT = 1
_MCL_FUTURE = 2
_MCL_ONFAULT = 4
_CAP_IPC_LOCK = 14
_STATUS = Path("/proc/self/status")


def lock_memory() -> str | None:
    """Lock what is there now, and what comes as it is touched; None, or the reason why it was not done."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and not has_lock_capability():
        return f"the limit for locked memory is {limit} bytes, and there is no CAP_IPC_LOCK"
    return call_mlockall(_mlockall())


def has_lock_capability(status: Path = _STATUS) -> bool:
    """Whether CAP_IPC_LOCK is effective, as /proc says."""
    try:
        text = status.read_text("ascii", "replace")
    except OSError:
        return False
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value.strip() or "0", 16) >> _CAP_IPC_LOCK & 1)
    return False


def call_mlockall(mlockall: Callable[[int], int] | None) -> str | None:
    """Lock everything mapped now at once, later mappings page by page; the reason where it fails."""
    if mlockall is None:
        return "the C library has no mlockall"
    for flags in (_MCL_CURRENT, _MCL_FUTURE | _MCL_ONFAULT):
        if mlockall(flags) != 0:
            return os.strerror(ctypes.get_errno())
    return None


def _mlockall() -> Callable[[int], int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "mlockall", None)
    if function is None:
        return None

    def call(flags: int) -> int:
        return int(function(ctypes.c_int(flags)))

    return call
