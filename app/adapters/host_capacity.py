"""What this host has: CPUs that this process may use, and memory; limits of a container included."""

from __future__ import annotations

import os
import re
from pathlib import Path

from app.core.permits import Amount
from app.errors import ConfigurationError

_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_TOTAL = re.compile(r"^MemTotal:\s+([0-9]{1,15}) kB$", re.MULTILINE)


def host_capacity(meminfo: Path = _MEMINFO, limit: Path = _CGROUP_LIMIT) -> Amount:
    """CPUs and memory of this host.

    Raises:
        ConfigurationError: the kernel's word can't be read.
    """
    try:
        found = _TOTAL.search(meminfo.read_text("ascii"))
    except (OSError, ValueError) as err:
        raise ConfigurationError([f"{meminfo} can't be read"], source="host") from err
    if found is None:
        raise ConfigurationError([f"{meminfo}: no MemTotal"], source="host")
    size_bytes = int(found[1]) * 1024
    return Amount(len(os.sched_getaffinity(0)) * 1000, min(size_bytes, _limit(limit) or size_bytes))


def _limit(path: Path) -> int | None:
    """The container's own limit; None where there is none, or it is no number."""
    try:
        return int(path.read_text("ascii")) or None
    except (OSError, ValueError):
        return None
