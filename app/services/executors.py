"""Carry out one action of a VM: permit, patch, monitor.

Each follows the same order: check the lease, tell the core that it starts, commit (fenced), do it within the
lease's time, tell the core how it ended. Nothing leaves the process before its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from app.core.actions import PluginRequest, Resize
from app.core.events import (
    Event,
    MonitorDownscaleAllowed,
    MonitorDownscaleDenied,
    MonitorDownscaleFailed,
    MonitorStartingDownscale,
    MonitorStartingUpscale,
    MonitorUpscaleFailed,
    MonitorUpscaleSuccessful,
    PlatformStarting,
    PluginFailed,
    PluginStarting,
    PluginSuccessful,
)
from app.errors import OwnershipLost, PeerError, PeerTimedOut, PeerUnreachable, StoreUnavailable
from app.ports.agent_metrics import (
    MONITOR_APPROVED,
    MONITOR_OUTBOUND,
    MONITOR_REQUESTED,
    NEONVM_OUTBOUND,
    NEONVM_REQUESTED,
    SCHEDULER_ACCEPTED,
    SCHEDULER_REQUESTED,
    SCHEDULER_REQUESTS,
)
from app.ports.own_metrics import DENIED
from app.ports.peers import DownscaleAnswer, PermitQuestion, SchedulerClient
from app.ports.platform import Platform
from app.ports.runtime import Clock, Monotonic
from app.ports.tracing import current_span
from app.ports.vm import MonitorPolicy
from app.protocols.metric_families import Counter
from app.services.agent_settings import AgentSettings
from app.services.counting import code_of, count_change, outcome_of
from app.services.guarding import Guard, Guards
from app.services.leave import bar_of
from app.services.monitor_link import MonitorLink
from app.services.own_monitor import judge_downscale
from app.services.runner import Runner
from app.services.scaling_kind import DOWNSCALE, UPSCALE
from app.services.scheduler_link import SchedulerLink
from app.services.tracking import Operation
from app.services.wording import size_text

logger = logging.getLogger(__name__)


class Executors:
    """Performs actions.

    Args:
        commit: write one runner through, fenced; raises OwnershipLost or StoreUnavailable.
        link_of: the monitor's connection of a VM, None where there is none.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        guards: Guards,
        commit: Callable[[Runner], None],
        scheduler: tuple[SchedulerLink, SchedulerClient],
        platform: Platform,
        link_of: Callable[[Runner], MonitorLink | None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._guards = guards
        self._commit = commit
        self._scheduler_link, self._scheduler = scheduler
        self._platform = platform
        self._link_of = link_of

    def ask_scheduler(self, runner: Runner, action: PluginRequest) -> None:
        """One request for a permit, or the tick that says what is in use."""
        guard = self._guards.guard(runner.bucket)
        info, generation = self._scheduler_link.current()
        if info is None:
            return
        guard.limit_s(self._settings.scheduler_timeout_s)
        runner.apply(PluginStarting(runner.now(), action.target))
        self._write_through(runner, PluginFailed(runner.now()))
        count_change(SCHEDULER_REQUESTED, action.last_permit, action.target, runner.vm.slot_bytes)
        question = PermitQuestion(runner.vm, action.target, action.last_permit, action.metrics, guard.token)
        try:
            limit_s = guard.limit_s(self._settings.scheduler_timeout_s)
            answer = self._scheduler.ask(info, question, timeout_s=limit_s)
        except (PeerError, OwnershipLost) as err:
            SCHEDULER_REQUESTS.add(code_of(err))
            if self._scheduler_link.generation == generation:
                runner.apply(PluginFailed(runner.now()))
            self._once(runner, f"scheduler: {err}")
            return
        SCHEDULER_REQUESTS.add(code_of(None))
        count_change(SCHEDULER_ACCEPTED, action.last_permit, answer.permit, runner.vm.slot_bytes)
        if self._scheduler_link.generation != generation or runner.is_closed:
            return
        if answer.is_migrating != runner.is_migrating_by_scheduler:
            runner.is_migrating_by_scheduler = answer.is_migrating
            runner.audit.add("migrating" if answer.is_migrating else "migrated", why="the scheduler says so")
        problem = runner.apply(PluginSuccessful(runner.now(), answer.permit, answer.compute_unit))
        if problem is not None:
            self._once(runner, f"scheduler: {problem}")
        elif action.target.has_field_above(answer.permit):
            asked = size_text(action.target, runner.vm.slot_bytes)
            granted = size_text(answer.permit, runner.vm.slot_bytes)
            self._once(runner, f"asked for {asked}, granted {granted}", kind="permit_refused")
            if runner.operation is not None and runner.operation.is_overdue:
                # What stands in the way now is the permit, not the platform.
                runner.operation = None
        else:
            runner.problem = ""

    def patch(self, runner: Runner, action: Resize, why: str) -> None:
        """Ask the platform for a size; accepted is not applied, the observed size decides."""
        guard = self._guards.guard(runner.bucket)
        guard.limit_s(self._settings.platform_timeout_s)
        now = runner.now()
        kind = UPSCALE if action.target.has_field_above(action.current) else DOWNSCALE
        deadline = Monotonic(self._clock.monotonic() + self._settings.apply_timeout_s)
        runner.apply(PlatformStarting(action.target))
        decided = now if runner.wanted_ms is None else runner.wanted_ms
        runner.wanted_ms = None
        runner.operation = Operation(
            kind, action.current, action.target, why, now, decided, deadline, trace=current_span()
        )
        try:
            self._commit(runner)
            _check_leave(runner)
        except (StoreUnavailable, OwnershipLost) as err:
            why = "the state could not be written" if bar_of(runner) is None else str(err)
            runner.fail_operation(f"{why}, so nothing was asked")
            raise
        _check_still_here(runner)
        operation = runner.operation
        count_change(NEONVM_REQUESTED, action.current, action.target, runner.vm.slot_bytes)
        try:
            limit_s = guard.limit_s(self._settings.platform_timeout_s)
            self._platform.apply_size(runner.vm, action.target, token=guard.token, timeout_s=limit_s)
        except (PeerError, OwnershipLost) as err:
            NEONVM_OUTBOUND.add(outcome_of(err))
            if runner.is_closed or runner.operation is not operation:
                return
            runner.fail_operation(f"platform: {err}")
            if isinstance(err, PeerTimedOut):
                self.look(runner, guard)
            return
        NEONVM_OUTBOUND.add("ok")
        runner.vm = replace(runner.vm, use=action.target)
        if runner.operation is operation:
            operation.is_accepted = True
            if runner.vm.observed is not None and runner.vm.observed == action.target:
                self.look(runner, guard)

    def look(self, runner: Runner, guard: Guard) -> None:
        """Read the VM's real size and tell the core; an unknown one changes nothing."""
        try:
            size = self._platform.read_size(
                runner.vm, timeout_s=guard.limit_s(self._settings.platform_timeout_s)
            )
        except PeerError as err:
            self._once(runner, f"platform: {err}")
            return
        if not runner.is_closed:
            runner.observe(size)

    def ask_monitor(self, runner: Runner, action: Resize) -> None:
        """Ask the monitor's leave for a downscale; a VM without one is judged by its last sample."""
        guard = self._guards.guard(runner.bucket)
        guard.limit_s(self._settings.monitor_response_timeout_s)
        now = runner.now()
        link = self._link_of(runner)
        generation = 0 if link is None else link.generation
        runner.apply(MonitorStartingDownscale(now, action.target))
        self._write_through(runner, MonitorDownscaleFailed(now))
        _count_if(link, MONITOR_REQUESTED, runner, action)
        try:
            answer = self._downscale_answer(runner, action, link, guard)
        except (PeerError, OwnershipLost) as err:
            MONITOR_OUTBOUND.add("DownscaleRequest", outcome_of(err))
            self._monitor_failed(runner, generation, MonitorDownscaleFailed(runner.now()), err)
            return
        if link is not None:
            MONITOR_OUTBOUND.add("DownscaleRequest", "ok")
        if runner.is_closed or self._generation(runner) != generation:
            return
        runner.monitor_answered()
        if answer.is_allowed:
            _count_if(link, MONITOR_APPROVED, runner, action)
            runner.apply(MonitorDownscaleAllowed())
            return
        runner.apply(MonitorDownscaleDenied(runner.now()))
        runner.counters.denied += 1
        DENIED.add()
        runner.note("denied", action.current, action.target, f"monitor: {answer.status}", "denied")

    def tell_monitor(self, runner: Runner, action: Resize) -> None:
        """Tell the monitor of what was granted."""
        guard = self._guards.guard(runner.bucket)
        guard.limit_s(self._settings.monitor_response_timeout_s)
        now = runner.now()
        link = self._link_of(runner)
        generation = 0 if link is None else link.generation
        runner.apply(MonitorStartingUpscale(now, action.target))
        self._write_through(runner, MonitorUpscaleFailed(now))
        _count_if(link, MONITOR_REQUESTED, runner, action)
        try:
            if link is None and runner.vm.monitor is MonitorPolicy.REQUIRED:
                raise PeerUnreachable(runner.key, "the connection to the monitor is gone")
            if link is not None:
                link.upscale(generation, timeout_s=guard.limit_s(self._settings.monitor_response_timeout_s))
        except (PeerError, OwnershipLost) as err:
            MONITOR_OUTBOUND.add("UpscaleNotification", outcome_of(err))
            self._monitor_failed(runner, generation, MonitorUpscaleFailed(runner.now()), err)
            return
        _count_if(link, MONITOR_APPROVED, runner, action)
        if link is not None:
            MONITOR_OUTBOUND.add("UpscaleNotification", "ok")
        if not runner.is_closed and self._generation(runner) == generation:
            runner.monitor_answered()
            runner.apply(MonitorUpscaleSuccessful())

    def _downscale_answer(
        self, runner: Runner, action: Resize, link: MonitorLink | None, guard: Guard
    ) -> DownscaleAnswer:
        if runner.vm.monitor is MonitorPolicy.NONE:
            return judge_downscale(action.target, runner.vm.slot_bytes, runner.state.metrics)
        if link is None:
            raise PeerUnreachable(runner.key, "the connection to the monitor is gone")
        limit_s = guard.limit_s(self._settings.monitor_response_timeout_s)
        return link.downscale(link.generation, timeout_s=limit_s)

    def _generation(self, runner: Runner) -> int:
        link = self._link_of(runner)
        return 0 if link is None else link.generation

    def _monitor_failed(self, runner: Runner, generation: int, event: Event, err: Exception) -> None:
        if runner.is_closed or self._generation(runner) != generation:
            return
        if runner.state.monitor.ongoing is not None:
            runner.apply(event)
        runner.counters.failed += 1
        self._once(runner, f"monitor: {err}")

    def _write_through(self, runner: Runner, undo: Event) -> None:
        """Commit what was begun; if that can't be done it is taken back, since nothing has left us."""
        try:
            self._commit(runner)
            _check_leave(runner)
        except (StoreUnavailable, OwnershipLost):
            runner.apply(undo)
            raise
        _check_still_here(runner)

    def _once(self, runner: Runner, problem: str, kind: str = "failed") -> None:
        """Log and audit a problem when it changes, not each time."""
        if problem != runner.problem:
            runner.problem = problem
            runner.audit.add(kind, why=problem)
            logger.warning("request failed", extra={"vm": runner.key, "kind": kind, "reason": problem})


def _count_if(
    link: MonitorLink | None, counters: tuple[Counter, Counter], runner: Runner, action: Resize
) -> None:
    """Count a change that a monitor has a say in; a VM without one has none."""
    if link is not None:
        count_change(counters, action.current, action.target, runner.vm.slot_bytes)


def _check_still_here(runner: Runner) -> None:
    """While its state was written the VM may have gone, and another may have its name: nothing is begun."""
    if runner.is_closed:
        raise OwnershipLost(runner.bucket, f"{runner.key} was let go")


def _check_leave(runner: Runner) -> None:
    """While its state was written its informant may have made another agent the current one."""
    bar = bar_of(runner)
    if bar is not None:
        raise OwnershipLost(runner.bucket, f"{runner.key}: {bar}")
