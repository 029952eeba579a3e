"""Commands that resize an application's cache when the VM's size changes; bounded in time.

The size is given in the environment: VMSCALER_CPU (vCPUs) and VMSCALER_MEM_BYTES. A status other than 0 is a
failure, and so is no end in time: the command is killed then, with everything that it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

LIMIT_S = 4.0
"""Default limit: below the 5 s that an agent waits for an answer."""


class HookFailed(Exception):
    """The command did not do its work; the text names the reason."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One command.

    Attributes:
        command: program and arguments; no shell is involved.
        limit_s: for it to end.
    """

    command: Sequence[str]
    limit_s: float = LIMIT_S

    async def run(self, cpu: float, mem: int) -> None:
        """Run it with this size and wait for its end. Raises HookFailed."""
        size = {"VMSCALER_CPU": f"{cpu:g}", "VMSCALER_MEM_BYTES": str(mem)}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **size},
                start_new_session=True,
            )
        except (OSError, ValueError) as err:
            raise HookFailed(f"{self.command[0]} could not be started") from err
        try:
            async with asyncio.timeout(self.limit_s):
                status = await process.wait()
        except TimeoutError as err:
            raise HookFailed(f"{self.command[0]} had not ended after {self.limit_s:g} s") from err
        finally:
            await _end(process)
        if status != 0:
            raise HookFailed(f"{self.command[0]} ended with status {status}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the command's session; done where it has ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
