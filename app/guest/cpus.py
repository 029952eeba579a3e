"""Sets CPUs of this guest online and offline, through /sys/devices/system/cpu.

The lowest numbers are kept: going down takes the highest away first. A CPU without an `online` file can't be
taken away and counts as online (the first one, as a rule).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
MAX_CPUS = 8192
"""More than any kernel is built for; bounds what a list such as `0-99` may spell."""
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class CpuCount:
    """How many CPUs are online, of how many that are there."""

    online: int
    present: int


class CpuSwitch:
    """Reads and changes which CPUs are online; one change at a time."""

    def __init__(self, root: Path = CPUS) -> None:
        self._root = root
        self._turn = asyncio.Lock()  # guards the change: two at once would undo each other

    async def count(self) -> CpuCount:
        """As the kernel says now. Raises OSError, ValueError."""
        return await asyncio.to_thread(self._count)

    async def set_online(self, wanted: int) -> CpuCount:
        """Have that many online; what was reached, which is less where the kernel refuses some.

        Raises:
            ValueError: below 1, or more than are present.
            OSError: the kernel refused to change any, or /sys can't be read.
        """
        async with self._turn:
            return await asyncio.to_thread(self._set_online, wanted)

    def _count(self) -> CpuCount:
        return CpuCount(len(self._list("online")), len(self._list("present")))

    def _set_online(self, wanted: int) -> CpuCount:
        present = self._list("present")
        if not 1 <= wanted <= len(present):
            raise ValueError(f"online must be 1 to {len(present)}")
        online = set(self._list("online"))
        problem: OSError | None = None
        rising = [cpu for cpu in present if cpu not in online]
        falling = [cpu for cpu in reversed(present) if cpu in online]
        missing = wanted - len(online)
        for cpu in rising if missing > 0 else falling:
            if missing == 0:
                break
            try:
                self._switch(cpu, is_online=missing > 0)
            except OSError as err:
                problem = err
                continue
            missing += -1 if missing > 0 else 1
        count = self._count()
        if problem is not None and count.online == len(online):
            raise problem
        return count

    def _switch(self, cpu: int, *, is_online: bool) -> None:
        path = self._root / f"cpu{cpu}" / "online"
        with path.open("r+") as file:
            file.write("1" if is_online else "0")

    def _list(self, name: str) -> list[int]:
        """The CPUs of a list such as `0-3,8`."""
        text = (self._root / name).read_text("ascii")
        numbers: list[int] = []
        for part in text.strip().split(","):
            found = _RANGE.fullmatch(part)
            if found is None:
                raise ValueError(f"{self._root / name}: not a list of CPUs")
            first, last = int(found[1]), int(found[2] or found[1])
            if last >= MAX_CPUS:
                raise ValueError(f"{self._root / name}: more than {MAX_CPUS} CPUs")
            numbers += range(first, last + 1)
        return numbers
