"""Parts of a CPU: a quota on the QEMU process, where the host has a cgroup v2 of its own for it.

A quota on a group that holds other processes would slow them down too, so such a group is not taken. It
limits all of QEMU: vCPUs, and the little that its other threads do.
"""

from __future__ import annotations

from pathlib import Path

from app.core.resources import MilliCpu

PERIOD_US = 100_000
"""The kernel's own default."""
_LARGEST_US = 1 << 50


class CpuQuota:
    """`cpu.max` of one cgroup; `is_usable` is asked before each use, as an operator may change it."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def is_usable(self) -> bool:
        """Whether the group has a quota that we may write, and holds one process at most."""
        if self._directory is None:
            return False
        try:
            processes = (self._directory / "cgroup.procs").read_text("ascii").split()
            with (self._directory / "cpu.max").open("r+"):
                return len(processes) <= 1
        except (OSError, ValueError):
            return False

    def read(self) -> MilliCpu | None:
        """The quota in milli-CPU, rounded up; None for none. Raises OSError, ValueError."""
        if self._directory is None:
            return None
        quota, _, period = (self._directory / "cpu.max").read_text("ascii").strip().partition(" ")
        if quota == "max":
            return None
        quota_us, period_us = int(quota), int(period or PERIOD_US)
        if not (0 < quota_us < _LARGEST_US and period_us > 0):
            raise ValueError("cpu.max is not what the kernel writes")
        return MilliCpu(-(-quota_us * 1000 // period_us))

    def write(self, milli: MilliCpu) -> None:
        """Set the quota; whole CPUs need none, as the guest has no more of them. Raises OSError."""
        if self._directory is not None:
            quota = "max" if milli % 1000 == 0 else str(milli * PERIOD_US // 1000)
            (self._directory / "cpu.max").write_text(f"{quota} {PERIOD_US}\n")
