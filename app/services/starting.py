"""How the VMs of a held bucket get their runners: at a take-over, as they appear, and after a failure.

The real size of those taken over is read before anything is asked for them. Nobody waits for another: a VM
whose platform is silent has a wait of its own, and one that can't begin at all is left for `Restarting`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from app.core.events import PluginGone
from app.errors import NewerVersion, VmscalerError
from app.ports.log_context import log_context
from app.ports.platform import Platform
from app.ports.runtime import Clock, Concurrency
from app.ports.store import BucketName
from app.ports.vm import VirtualMachine
from app.services.agent_settings import AgentSettings
from app.services.beginning import begin_runner
from app.services.guarding import Guards
from app.services.held_bucket import HeldBucket
from app.services.polling import LOOK_EVERY_S, PollSlots
from app.services.runner import Runner
from app.services.runner_life import Life, RunnerCounts

logger = logging.getLogger(__name__)

READS_AT_ONCE = 8
"""Real sizes that are read at the same time; those that take over 0.2 s don't count."""

READ_AGAIN_S = 1.0
"""Pause before a real size that could not be read, or is about to change, is asked for again."""

NotBegun = Callable[[BucketName, VirtualMachine, Exception], None]
"""Told of a VM for which no runner could be made, and why."""


class Starting:
    """Begins runners.

    Args:
        ready: called with each runner whose real size is known: connect it, ask its core.
        failed: called with a runner in which our own code failed.

    Attributes:
        born: called with each runner before anything happens to it; must not wait.
    """

    def __init__(
        self,
        settings: AgentSettings,
        runtime: tuple[Clock, Concurrency],
        platform: Platform,
        guards: Guards,
        ready: Callable[[Runner], None],
        failed: Callable[[Runner, Exception], None],
    ) -> None:
        self._settings = settings
        self._clock, self._concurrency = runtime
        self._platform = platform
        self._guards = guards
        self._ready = ready
        self._failed = failed
        self.born: Callable[[Runner], None] = lambda runner: None
        self._slots = PollSlots(self._clock, READS_AT_ONCE)
        self._has_scheduler: Callable[[], bool] = lambda: False
        self._not_begun: Callable[[BucketName, VirtualMachine, Exception], None] = lambda bucket, vm, err: (
            None
        )
        self.counts = RunnerCounts()

    def connect(self, has_scheduler: Callable[[], bool], not_begun: NotBegun) -> None:
        """Name who says whether there is a scheduler, and who hears of VMs that can't begin; called once."""
        self._has_scheduler, self._not_begun = has_scheduler, not_begun

    def begin(self, bucket: BucketName, held: HeldBucket, vms: Iterable[VirtualMachine]) -> None:
        """Start a runner for each of these VMs; does not wait."""
        for vm in vms:
            raw = held.records.pop(vm.key, None)
            before = self._life(held, vm).begin(self._clock.wall_ms())
            try:
                runner = begin_runner(
                    vm,
                    bucket,
                    raw,
                    self._settings,
                    self._clock,
                    failed=None if before is None else before.kind.value,
                )
                self._tell_scheduler(runner)
            except NewerVersion as err:
                if vm.key not in held.left_alone:
                    logger.warning("VM left alone", extra={"vm": vm.key, "reason": str(err)})
                held.left_alone.add(vm.key)
                held.records[vm.key] = raw or b""
                del held.lives[vm.key]
            except Exception as err:  # noqa: BLE001 the edge of a VM: the others of its bucket begin
                if raw is not None:
                    held.records[vm.key] = raw
                self._not_begun(bucket, vm, err)
            else:
                self.counts.starts += 1
                self.counts.restarts += before is not None
                held.runners[vm.key] = runner
                self.born(runner)
                self._spawn(runner, is_taken_over=raw is not None)

    def _life(self, held: HeldBucket, vm: VirtualMachine) -> Life:
        life = held.lives.get(vm.key)
        if life is None or life.uid != vm.uid:
            life = held.lives[vm.key] = Life(self._clock.wall_ms(), vm.uid)
        return life

    def _spawn(self, runner: Runner, *, is_taken_over: bool) -> None:
        def run() -> None:
            try:
                if is_taken_over:
                    with log_context(vm=runner.key):
                        self._learn_real_size(runner)
                if not runner.is_closed:
                    runner.is_ready = True
                    self._ready(runner)
            except Exception as err:  # noqa: BLE001 the edge of a job: one VM's failure harms no other
                self._failed(runner, err)

        self._concurrency.spawn(f"begin {runner.key}", run)

    def _tell_scheduler(self, runner: Runner) -> None:
        if self._has_scheduler():
            runner.tell_scheduler_is_new()
        else:
            runner.apply(PluginGone())

    def _learn_real_size(self, runner: Runner) -> None:
        """Ask until the size is known and stands still, or the runner is let go."""
        while not runner.is_closed:
            place = self._slots.try_take()
            if place is None:
                self._concurrency.sleep(LOOK_EVERY_S)
                continue
            try:
                if runner.is_closed or self._is_real_size_told(runner):
                    return
            finally:
                self._slots.free(place)
            self._concurrency.sleep(READ_AGAIN_S)

    def _is_real_size_told(self, runner: Runner) -> bool:
        """Read the real size and tell the core; an observed VM's platform is not asked, its word is taken."""
        try:
            if runner.is_observed:
                size = runner.vm.real_size
            else:
                guard = self._guards.guard(runner.bucket)
                size = self._platform.read_size(
                    runner.vm, timeout_s=guard.limit_s(self._settings.platform_timeout_s)
                )
        except VmscalerError as err:
            logger.warning("real size not read at take-over", extra={"vm": runner.key, "reason": str(err)})
            return False
        if runner.awaited is not None and runner.awaited.may_still_change(size, runner.vm.use, runner.now()):
            # The scheduler keeps what it granted for it; told of less now, it would give it to another.
            return False
        if not runner.is_closed:
            runner.observe(size)
        return True
