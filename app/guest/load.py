"""A load in this guest that an operator turns: CPUs kept busy, memory that grows, for a time.

For trying out how a VM is scaled. It is a child process, one at a time: a new load ends the one before. It is
served only with `--load`, and needs the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass

logger = logging.getLogger(__name__)

MAX_MILLI_CPU = 64_000
MAX_BYTES = 1 << 40
MAX_SECONDS = 86_400
DEFAULT_RATE = 12 * 1024 * 1024
"""Bytes a second; slow enough for more memory to be plugged before the guest runs out."""
_END_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be done.

    Attributes:
        milli_cpu: CPUs to keep busy; 1000 is one.
        memory: bytes to take in the end.
        rate: bytes a second by which memory grows.
        seconds: until all of it ends.
    """

    milli_cpu: int
    memory: int
    rate: int
    seconds: int


def read_load(document: object) -> Load:
    """The load that a request's body asks for: `milli_cpu`, `memory`, `rate`, `seconds`, all whole numbers.

    Raises:
        ValueError: it asks for none; the text names the field.
    """
    if not isinstance(document, dict):
        raise ValueError("an object was expected")
    bounds = {
        "milli_cpu": (0, MAX_MILLI_CPU, 0),
        "memory": (0, MAX_BYTES, 0),
        "rate": (1, MAX_BYTES, DEFAULT_RATE),
        "seconds": (1, MAX_SECONDS, None),
    }
    if unknown := sorted(set(map(str, document)) - set(bounds)):
        raise ValueError(f"unknown field {unknown[0][:40]!r}")
    values = {}
    for name, (least, most, default) in bounds.items():
        value = document.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name}: a whole number from {least} to {most} was expected")
        values[name] = value
    load = Load(**values)
    if load.milli_cpu == 0 and load.memory == 0:
        raise ValueError("milli_cpu or memory must be above 0")
    return load


class LoadRunner:
    """Runs at most one load.

    Args:
        command: what is run, before the load's numbers.
    """

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", "app.guest.load_work")) -> None:
        self._command = command
        self._turn = asyncio.Lock()  # guards the change from one load to the next
        self._process: asyncio.subprocess.Process | None = None
        self._load: Load | None = None
        self._ends = 0.0

    async def begin(self, load: Load) -> None:
        """End the load before, if there is one, and begin this one. Raises OSError: it can't be started."""
        async with self._turn:
            await self._end()
            numbers = (load.milli_cpu, load.memory, load.rate, load.seconds)
            # A session of its own, so that all of it can be ended at once.
            self._process = await asyncio.create_subprocess_exec(
                *self._command, *map(str, numbers), stdin=asyncio.subprocess.DEVNULL, start_new_session=True
            )
            self._load, self._ends = load, time.monotonic() + load.seconds
            logger.info(
                "load begun",
                extra={"milli_cpu": load.milli_cpu, "memory": load.memory, "seconds": load.seconds},
            )

    async def end(self) -> None:
        """End the load, if there is one."""
        async with self._turn:
            await self._end()

    def status(self) -> dict[str, object]:
        """What runs, or how the last one ended: `over`, `ended by signal N` (9: memory ran out), or none."""
        if self._process is None or self._load is None:
            return {"is_running": False, "ended": None}
        load = self._load
        facts: dict[str, object] = {"milli_cpu": load.milli_cpu, "memory": load.memory, "rate": load.rate}
        code = self._process.returncode
        if code is None:
            left = max(self._ends - time.monotonic(), 0)
            return {"is_running": True, "ended": None, "seconds_left": round(left, 1), **facts}
        told = "over" if code == 0 else f"ended by signal {-code}" if code < 0 else f"failed, status {code}"
        return {"is_running": False, "ended": told, **facts}

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(_END_LIMIT_S):
            await process.wait()
