"""The guest's word on its size: samples its memory, judges downscales, runs the hooks.

One for the process: vm-monitor and informant share it. The rule is `app.protocols.memory_policy`'s.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from app.guest.hooks import Hook
from app.protocols.guest_metrics import HOOK_TIME, MEMORY_SAMPLES, RESIZES
from app.protocols.memory_policy import SAMPLE_EVERY_S, DownscaleVerdict, MemoryPolicy

logger = logging.getLogger(__name__)


class Workload:
    """Memory and hooks of this guest.

    Args:
        total_bytes: the guest's memory at the start.
        read_bytes: what the workload holds now; raises OSError or ValueError where it can't be read.
        upscale_hook: run after each upscale.
        downscale_hook: run before a downscale is allowed.
    """

    def __init__(
        self,
        total_bytes: int,
        read_bytes: Callable[[], int],
        *,
        upscale_hook: Hook | None = None,
        downscale_hook: Hook | None = None,
    ) -> None:
        self._policy = MemoryPolicy(total_bytes)
        self._read_bytes = read_bytes
        self._upscale_hook = upscale_hook
        self._downscale_hook = downscale_hook
        self._turn = asyncio.Lock()  # guards the policy's size: one change of it after the other
        self._problem: str | None = None

    async def sample_forever(self, ask_for_memory: Callable[[], None]) -> None:
        """Sample until cancelled; calls back when memory is needed, once a second at most.

        What was missed while the guest was busy or stopped is not made up for.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self._sample():
                ask_for_memory()
            due = max(due + SAMPLE_EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())

    async def try_downscale(self, cpu: float, mem: int) -> DownscaleVerdict:
        """Whether the guest agrees to go down to this size; where it does, its cache has been made smaller.

        Raises:
            app.guest.hooks.HookFailed: the hook failed; the size stays what it was.
        """
        answer = "failed"
        try:
            async with self._turn:
                verdict = self._policy.judge_downscale(time.monotonic(), mem)
                if verdict.is_allowed:
                    await _run("downscale", self._downscale_hook, cpu, mem)
                    self._policy.resize(mem)
            if not verdict.is_failure:
                answer = "agreed" if verdict.is_allowed else "denied"
            return verdict
        finally:
            RESIZES.add("downscale", answer)

    async def notify_upscale(self, cpu: float, mem: int) -> None:
        """The guest has this size now, or is about to.

        Raises:
            app.guest.hooks.HookFailed: the hook failed; the size counts all the same.
        """
        answer = "failed"
        try:
            async with self._turn:
                self._policy.resize(mem)
                await _run("upscale", self._upscale_hook, cpu, mem)
            answer = "agreed"
        finally:
            RESIZES.add("upscale", answer)

    def _sample(self) -> bool:
        """Take one sample; a reason why it can't be had is logged once."""
        try:
            used = self._read_bytes()
        except (OSError, ValueError) as err:
            problem = str(err)
            if problem != self._problem:
                logger.error("memory can't be read", extra={"problem": problem})
            self._problem = problem
            MEMORY_SAMPLES.add("failed")
            return False
        self._problem = None
        MEMORY_SAMPLES.add("ok")
        return self._policy.record(time.monotonic(), used)


async def _run(kind: str, hook: Hook | None, cpu: float, mem: int) -> None:
    """Run a hook, if there is one, and note the time that it took."""
    if hook is None:
        return
    began, result = time.monotonic(), "failed"
    try:
        await hook.run(cpu, mem)
        result = "ok"
    finally:
        HOOK_TIME.observe(time.monotonic() - began, kind, result)
