"""How much memory the workload of this guest holds that can't be reclaimed.

Of a cgroup where one is named: its anonymous memory (shared memory is part of it), what is locked, and the
kernel's own for it; page cache is left out. Else of the whole guest: what is not available.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.guest.procfs import PROC, read_memory

CGROUPS = Path("/sys/fs/cgroup")
_READ_LIMIT = 65_536
"""Bytes of a memory.stat; the kernel's has about 3 KB."""
_V2_REQUIRED = ("active_anon", "inactive_anon")
_V2_OPTIONAL = ("unevictable", "slab_unreclaimable", "kernel_stack", "pagetables")
_V1_REQUIRED = ("total_active_anon", "total_inactive_anon")
_V1_OPTIONAL = ("total_unevictable",)


def memory_reader(cgroup: str | None, *, cgroups: Path = CGROUPS, proc: Path = PROC) -> Callable[[], int]:
    """A function that reads the bytes in use now; it raises OSError or ValueError where it can't.

    Args:
        cgroup: its path below the mount point; None: the whole guest.

    Raises:
        FileNotFoundError: there is no such cgroup, neither in v2 nor in v1.
    """
    if cgroup is None:
        return lambda: guest_bytes(proc)
    name = cgroup.strip("/")
    for mount, required, optional in (
        (cgroups, _V2_REQUIRED, _V2_OPTIONAL),
        (cgroups / "unified", _V2_REQUIRED, _V2_OPTIONAL),
        (cgroups / "memory", _V1_REQUIRED, _V1_OPTIONAL),
    ):
        path = mount / name / "memory.stat"
        if path.is_file():
            return lambda: cgroup_bytes(path, required, optional)
    raise FileNotFoundError(f"no cgroup {name!r} with a memory.stat below {cgroups}")


def guest_bytes(proc: Path = PROC) -> int:
    """What of this machine's memory is not available. Raises OSError, ValueError."""
    memory = read_memory(proc)
    return max(memory["MemTotal"] - memory["MemAvailable"], 0)


def cgroup_bytes(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> int:
    """The sum of some lines of a memory.stat.

    Raises:
        OSError: it can't be read: the cgroup may be gone.
        ValueError: a required line is missing, or a line is no number.
    """
    with path.open("rb") as file:
        text = file.read(_READ_LIMIT).decode("ascii", "replace")
    values: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in required or name in optional:
            values[name] = int(value)
    missing = [name for name in required if name not in values]
    if missing:
        raise ValueError(f"{path}: no {missing[0]}")
    return sum(values.values())
