"""Reads load, memory and CPU time of this machine from /proc; Linux only.

The root is an argument, so that a daemon in a container can be given the host's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The columns of a `cpuN` line in /proc/stat, in their order; guest time is part of user time."""
_CPU_LINE = re.compile(r"cpu(\d+) ([\d ]+)")
_MEMORY_LINE = re.compile(r"([A-Za-z0-9_()]+):\s+(\d+)( kB)?")
_READ_LIMIT = 1_048_576
"""Bytes read of one file; /proc/stat of a 256-CPU machine has about 40 KB."""


@dataclass(frozen=True, slots=True)
class LoadAverage:
    """The kernel's load averages over 1, 5 and 15 minutes, and the number of runnable threads now."""

    load1: float
    load5: float
    load15: float
    runnable: int


@dataclass(frozen=True, slots=True)
class SystemStat:
    """From /proc/stat.

    Attributes:
        cpu_seconds: per online CPU (its number), seconds in each of `CPU_MODES`.
        boot_time: Unix seconds.
    """

    cpu_seconds: dict[int, tuple[float, ...]]
    boot_time: int


def read_load(root: Path = PROC) -> LoadAverage:
    """The load averages now.

    Raises:
        OSError: the file can't be read.
        ValueError: it does not look like a load average.
    """
    fields = _text(root / "loadavg").split()
    if len(fields) < 4:
        raise ValueError(f"{root / 'loadavg'}: 4 fields expected")
    return LoadAverage(float(fields[0]), float(fields[1]), float(fields[2]), int(fields[3].partition("/")[0]))


def read_memory(root: Path = PROC) -> dict[str, int]:
    """All values of /proc/meminfo by their name, in bytes (counts where the kernel gives no unit).

    Raises:
        OSError: the file can't be read.
        ValueError: there is no MemTotal or MemAvailable in it.
    """
    values: dict[str, int] = {}
    for line in _text(root / "meminfo").splitlines():
        if found := _MEMORY_LINE.match(line):
            values[found[1]] = int(found[2]) * (1024 if found[3] else 1)
    for name in ("MemTotal", "MemAvailable"):
        if name not in values:
            raise ValueError(f"{root / 'meminfo'}: no {name}")
    return values


def read_stat(root: Path = PROC) -> SystemStat:
    """CPU time and boot time.

    Raises:
        OSError: the file can't be read.
        ValueError: no CPU is in it.
    """
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    cpus: dict[int, tuple[float, ...]] = {}
    boot_time = 0
    for line in _text(root / "stat").splitlines():
        if found := _CPU_LINE.match(line):
            ticks = [int(field) for field in found[2].split()[: len(CPU_MODES)]]
            ticks += [0] * (len(CPU_MODES) - len(ticks))
            cpus[int(found[1])] = tuple(count * tick_s for count in ticks)
        elif line.startswith("btime "):
            boot_time = int(line.split()[1])
    if not cpus:
        raise ValueError(f"{root / 'stat'}: no CPU")
    return SystemStat(cpus, boot_time)


def read_oom_kills(root: Path = PROC) -> int | None:
    """How many processes the kernel has killed for want of memory; None where it does not tell."""
    try:
        lines = _text(root / "vmstat").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdigit():
            return int(value)
    return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_READ_LIMIT).decode("ascii", "replace")
