"""What becomes of a runner that has failed: it ends alone, and is begun anew (`spec/agent.md`, "Runner").

At once if it had run for over `RUNNER_RESTART_MAX_WAIT_SECONDS`, else after a wait between
`RUNNER_RESTART_MIN_WAIT_SECONDS` and that, which differs from VM to VM. One that was ended (its VM or its
bucket went) is not begun again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from app.ports.runtime import Clock, Concurrency
from app.ports.store import BucketName
from app.ports.vm import VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.held_bucket import HeldBucket
from app.services.record import build_write
from app.services.runner import Runner
from app.services.runner_life import ExitKind, Life, RunnerCounts
from app.services.spreading import spread

logger = logging.getLogger(__name__)


class Restarting:
    """Ends failed runners and begins them anew.

    Args:
        buckets: those held now.
        save: write a runner through, fenced.
        close: let a runner go.
        begin: make a runner for a VM of a held bucket; nothing where the platform has it no more.
    """

    def __init__(
        self,
        settings: AgentSettings,
        runtime: tuple[Clock, Concurrency],
        buckets: Mapping[BucketName, HeldBucket],
        counts: RunnerCounts,
        save: Callable[[Runner], None],
        close: Callable[[Runner], None],
        begin: Callable[[BucketName, VmKey], None],
    ) -> None:
        self._settings = settings
        self._clock, self._concurrency = runtime
        self._buckets = buckets
        self._counts = counts
        self._save = save
        self._close = close
        self._begin = begin

    def failed(self, runner: Runner, err: Exception) -> None:
        """A run ended with this error; nothing follows from the next one of the same run."""
        held = self._buckets.get(runner.bucket)
        is_ours = held is not None and held.runners.get(runner.key) is runner
        if held is None or not is_ours or runner.is_closed or runner.has_failed:
            logger.debug("a runner that had ended failed", extra={"vm": runner.key}, exc_info=err)
            return
        life = held.lives[runner.key]
        kind = self._note(life, runner.key, err)
        runner.is_ready = False
        runner.set_status(kind.value, f"{type(err).__name__}: {err}")
        runner.audit.add(kind.value, why=f"the runner ended: {runner.status_reason}")
        ran_s = self._clock.monotonic() - runner.started
        pause_s = 0.0 if ran_s > self._settings.restart_max_wait_s else self._pause_s(life, runner.key)
        self._concurrency.spawn(f"restart {runner.key}", lambda: self._restart(runner, pause_s))

    def not_begun(self, bucket: BucketName, vm: VirtualMachine, err: Exception) -> None:
        """No runner could be made for a VM: it is tried again after the wait, or with its next change."""
        life = self._buckets[bucket].lives[vm.key]
        self._note(life, vm.key, err)
        end = life.end

        def again() -> None:
            self._concurrency.sleep(self._pause_s(life, vm.key))
            held = self._buckets.get(bucket)
            if held is not None and held.lives.get(vm.key) is life and life.end is end:
                self._begin(bucket, vm.key)

        self._concurrency.spawn(f"begin {vm.key} again", again)

    def _note(self, life: Life, key: VmKey, err: Exception) -> ExitKind:
        """Write the end down; a trace is logged once per distinct reason, not for each try."""
        is_news = life.fail(err, self._clock.wall_ms())
        kind = ExitKind.PANICKED if life.end is None else life.end.kind
        self._counts.failed(kind)
        facts = {"vm": key, "status": kind.value, "failures": life.failures, "reason": str(err)[:200]}
        if kind is ExitKind.PANICKED and is_news:
            logger.error("runner failed: a bug", extra=facts, exc_info=err)
        else:
            logger.log(logging.WARNING if is_news else logging.DEBUG, "runner failed", extra=facts)
        return kind

    def _pause_s(self, life: Life, key: VmKey) -> float:
        low, high = self._settings.restart_min_wait_s, self._settings.restart_max_wait_s
        return low + (high - low) * spread(f"{key} {life.started_ms} {life.failures}")

    def _restart(self, runner: Runner, pause_s: float) -> None:
        """Begin a failed runner anew from its record; from nothing where that can't be had."""
        record: bytes | None = None
        try:
            self._save(runner)
            record = build_write(runner).record
        except Exception as err:  # noqa: BLE001 the record may be what it failed of
            facts = {"vm": runner.key, "reason": f"{type(err).__name__}: {err}"[:200]}
            logger.warning("failed runner not saved", extra=facts)
        self._close(runner)
        self._concurrency.sleep(pause_s)
        held = self._buckets.get(runner.bucket)
        if held is None or held.runners.get(runner.key) is not runner:
            return
        del held.runners[runner.key]
        if record is not None:
            held.records[runner.key] = record
        self._begin(runner.bucket, runner.key)
