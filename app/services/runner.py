"""One VM's actor: its core state, and what the worker knows beside it.

Every event of the VM is applied here, in its owner's process, one at a time: nothing in this module waits,
so under cooperative concurrency each method is atomic. Nothing here does I/O; what leaves the process is
committed first by whoever calls.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.events import (
    TIMED_EVENTS,
    Event,
    MetricsArrived,
    ModeChanged,
    MonitorActive,
    MonitorReset,
    PlatformFailed,
    PlatformObserved,
    PlatformSuccessful,
    PluginNewScheduler,
    UpdatedVm,
    at_least,
)
from app.core.model import Metrics, Millis, Mode
from app.core.resources import Resources
from app.core.state import State, initial_state
from app.core.transition import apply
from app.ports.agent_metrics import NEXT_ACTIONS
from app.ports.runtime import Clock, Monotonic
from app.ports.store import BucketName, Intent
from app.ports.vm import MonitorPolicy, VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.audit import MAX_TEXT, AuditLog, size_json
from app.services.fixed_size import fixed_text, for_core
from app.services.leave import Leave
from app.services.platform_changes import note_changes
from app.services.recorder import Recorder
from app.services.restraint import restrain
from app.services.runner_status import FAILED, update_status
from app.services.tracking import Awaited, Counters, Failing, Operation, Sampling
from app.services.why import why_text
from app.services.wording import size_text

logger = logging.getLogger(__name__)


class Runner:
    """One VM, from added to deleted.

    Attributes:
        plan: what may be done now; `decided` is what the core wants, whatever the operator says.
        wanted_ms: since when a change of its size is wanted and nobody was asked for it; None: none is.
        task_until: a scaling task is queued or running until then at most.
        is_busy: its actions are being driven right now.
        awaited: what an earlier owner asked for, while it may still come; set from the record.
        recorder: told of every event and decision while the VM is being recorded.
        informant: who is asked before each effect; None: nobody need be.
        problem: the last failure that was logged and audited; the same one is not said twice.
        is_ready: its real size is known; before, nothing is asked of anyone for it.
        has_intents: the operators' intents have been read; before, nothing is asked either.
        is_leaving: its bucket is being handed over: what runs is finished, nothing is begun.
        is_closed: it has been let go; nothing may be begun for it any more.
        stat_ms: timestamp of the last pushed stat that was accepted, by any owner.
        endpoint_since: when the VM got its billing endpoint, or was first seen with it; None without one.
        excused: when it was last seen to be one that need not hear of its monitor; 0: never.
    """

    def __init__(
        self,
        vm: VirtualMachine,
        bucket: BucketName,
        settings: AgentSettings,
        clock: Clock,
        state: State | None = None,
    ) -> None:
        self.vm = vm
        self.key: VmKey = vm.key
        self.bucket = bucket
        self.settings = settings
        self._clock = clock
        self._last_now: Millis = Millis(0)
        self.state: State = state if state is not None else initial_state(vm.for_core(), settings.core)
        self.audit = AuditLog(settings.worker)
        self.sampling = Sampling()
        self.counters = Counters()
        self.operation: Operation | None = None
        self.awaited: Awaited | None = None
        self.failing: Failing | None = None
        self.intents: dict[str, Intent] = {}
        self.plan = ActionSet()
        self.decided = ActionSet()
        self.decided_ms: Millis = Millis(0)
        self.last: dict[str, object] | None = None
        self.started: Monotonic = clock.monotonic()
        self.monitor_ok: Monotonic | None = None
        self.endpoint_since: Monotonic | None = None
        self.excused = Monotonic(0.0)
        self.status = "ok"
        self.status_reason = ""
        self.status_ms: Millis = clock.wall_ms()
        self.wanted_ms: Millis | None = None
        self.task_until: Monotonic | None = None
        self.is_busy = False
        self.is_closed = False
        self.is_ready = False
        self.has_intents = False
        self.is_leaving = False
        self.is_migrating_by_scheduler = False
        self.hold_until_ms: Millis | None = None
        self.last_upscale_request: Monotonic | None = None
        self.problem = ""
        self.stat_ms: int | None = None
        self.recorder: Recorder | None = None
        self.informant: Leave | None = None
        self._refusals: set[str] = set()
        self._endpoint_assigned(vm.endpoint_id)
        self.set_mode()

    # --- time ---------------------------------------------------------------------------------------------

    def now(self) -> Millis:
        """Unix milliseconds, never lower than this VM's last one."""
        self._last_now = max(self._last_now, self._clock.wall_ms())
        return self._last_now

    def continue_from(self, core_now: Millis) -> None:
        """Take over from an earlier owner: `now` starts no lower than its last one, if that is sane."""
        if core_now <= self._clock.wall_ms() + 60_000:
            self._last_now = max(self._last_now, core_now)

    # --- events -------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> str | None:
        """Apply one event; the text says why it was refused, if it was.

        An event's time is never lower than this VM's last one: one that was made before a wait is as of now.
        """
        event = at_least(event, self._last_now)
        outcome = apply(self.state, event)
        self.state = outcome.state
        if self.recorder is not None:
            now = event.now if isinstance(event, TIMED_EVENTS) else self.now()
            self.recorder.applied(event, now, outcome)
        if (
            outcome.refused is not None
            and outcome.refused not in self._refusals
            and len(self._refusals) < 100
        ):
            self._refusals.add(outcome.refused)
            logger.warning("event refused", extra={"vm": self.key, "reason": outcome.refused})
        return outcome.refused

    def take_sample(self, metrics: Metrics) -> None:
        """A good sample arrived."""
        now = self.now()
        if self.sampling.error is not None:
            self.audit.add("metrics_ok", why=f"readable again after {self.sampling.failures} failed polls")
        self.sampling = Sampling(at_ms=now, tried_ms=now)
        self.counters.polls += 1
        self.apply(MetricsArrived(metrics))
        if (
            self.vm.monitor is MonitorPolicy.NONE
            and not self.state.monitor.is_active
            and not self.is_observed
        ):
            self.apply(MonitorActive(True))

    def reject_sample(self, problem: str) -> None:
        """A poll gave nothing that can be believed; the last good sample stays."""
        sampling = self.sampling
        if sampling.error is None:
            self.audit.add("metrics_rejected", why=problem)
            logger.warning("no usable metrics", extra={"vm": self.key, "reason": problem})
        sampling.tried_ms = self.now()
        sampling.error = problem
        sampling.failures += 1
        self.counters.polls += 1
        self.counters.poll_failures += 1

    def update_vm(self, vm: VirtualMachine) -> None:
        """The platform describes the VM anew; its observed size, if told, is taken in."""
        if vm == self.vm:
            return
        before = self.vm
        if vm.endpoint_id != self.vm.endpoint_id:
            self._endpoint_assigned(vm.endpoint_id)
        self.vm = vm
        if before.monitor is not vm.monitor:
            self.apply(MonitorReset())
        self.apply(UpdatedVm(for_core(vm.for_core(), self.intents)))
        note_changes(self, before, vm)
        if not vm.migrating:
            self.is_migrating_by_scheduler = self.is_migrating_by_scheduler and not before.migrating
        self.set_mode()
        if vm.observed is not None:
            self.observe(vm.observed)

    def observe(self, size: Resources) -> None:
        """The VM's real size, as seen at the platform: done, partly done, or changed by someone else."""
        operation, use = self.operation, self.state.vm.use
        if self.state.platform.ongoing is not None and operation is not None and operation.is_accepted:
            if size == self.state.platform.ongoing:
                self.apply(PlatformSuccessful())
                self._complete(operation)
            elif size != use:
                self.apply(PlatformObserved(self.now(), size))
            return
        if self.state.platform.ongoing is not None or size == use:
            return
        self.apply(PlatformObserved(self.now(), size))
        if operation is not None and size == operation.target:
            self._complete(operation)
        else:
            self.audit.add("observed", origin=use, target=size, why="the real size is not the one we knew")

    def check_overdue(self) -> bool:
        """Give an accepted size up that was not observed in time; whether that has just happened."""
        operation = self.operation
        if operation is None or not operation.is_accepted or operation.is_overdue:
            return False
        if self._clock.monotonic() < operation.deadline:
            return False
        operation.is_overdue = True
        now = self.now()
        self.hold_until_ms = Millis(now + self.settings.core.platform_retry_wait)
        self.apply(PlatformFailed(now))
        self.counters.not_applied += 1
        self._count_failure("accepted, but not applied")
        real = self.vm.real_size
        if real != self.state.vm.use:
            self.apply(PlatformObserved(now, real))
        seen = size_text(self.state.vm.use, self.vm.slot_bytes)
        why = f"accepted, but {seen} observed after {self.settings.apply_timeout_s:g} s"
        operation.end_trace(self.key, now, why)
        self.note("not_applied", operation.origin, operation.target, why, "not applied")
        self._drop_overdue()
        return True

    def fail_operation(self, why: str) -> None:
        """The platform refused or did not answer."""
        self.apply(PlatformFailed(self.now()))
        self.counters.failed += 1
        self._count_failure(why)
        if self.operation is not None:
            self.note("failed", self.operation.origin, self.operation.target, why, "failed")
            self.operation = None

    def note(
        self,
        kind: str,
        origin: Resources | None,
        target: Resources | None,
        why: str,
        outcome: str | None = None,
    ) -> None:
        """Remember a fact as the last one, and put it in the audit trail unless it is the last one again.

        A refusal that is repeated every second would push all else out of the trail; the counters count it.
        """
        what = {"kind": kind, "from": size_json(origin), "to": size_json(target)}
        if self.last is None or any(self.last[name] != value for name, value in what.items()):
            self.audit.add(kind, origin=origin, target=target, why=why, outcome=outcome)
        self.last = {"at_ms": self.now(), **what, "why": why[:MAX_TEXT]}

    def _drop_overdue(self) -> None:
        """A resize that was given up and may not be tried again is over; nobody could act on it."""
        if self.operation is not None and self.operation.is_overdue and (self.is_observed or self.pause):
            self.operation = None

    def _count_failure(self, why: str) -> None:
        self.failing = self.failing or Failing(self.now())
        self.failing.times += 1
        self.failing.why = why

    def _complete(self, operation: Operation) -> None:
        operation.end_trace(self.key, self.now())
        self.operation = None
        self.failing = None
        if operation.kind == "upscale":
            self.counters.upscales += 1
        else:
            self.counters.downscales += 1
        self.note(operation.kind, operation.origin, operation.target, operation.why, "observed")
        logger.info(
            "resize observed",
            extra={
                "vm": self.key,
                "kind": operation.kind,
                "from": size_text(operation.origin, self.vm.slot_bytes),
                "to": size_text(operation.target, self.vm.slot_bytes),
            },
        )

    @property
    def awaits_observation(self) -> bool:
        """Whether a size was accepted and neither seen nor given up."""
        operation = self.operation
        return (
            operation is not None
            and operation.is_accepted
            and not operation.is_overdue
            and not self.is_closed
        )

    @property
    def operation_age_ms(self) -> int:
        """Since the resize under way was begun; 0 without one."""
        return 0 if self.operation is None else self.now() - self.operation.since_ms

    def settings_changed(self) -> None:
        """The core goes by the settings as they are now; a recording goes on in a new script."""
        self.state = replace(self.state, config=self.settings.core)
        if self.recorder is not None:
            self.recorder.begun_anew(self.state, self.now())

    # --- mode and pause -----------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode in force: the operator's, else the platform's."""
        intent = self.intents.get("mode")
        return Mode(intent.value) if intent is not None else self.vm.mode

    @property
    def is_observed(self) -> bool:
        """Whether nothing at all may be asked of anyone for this VM."""
        return self.mode is Mode.OBSERVE

    @property
    def pause(self) -> Intent | None:
        """The standing pause, if any."""
        return self.intents.get("pause")

    def set_mode(self) -> None:
        """Tell the core the mode in force; called whenever mode or pause may have changed."""
        self._drop_overdue()
        mode = self.mode
        if mode is not self.state.mode or (mode is Mode.OBSERVE and self.state.observe_unit is None):
            if mode is Mode.OBSERVE:
                self.apply(MonitorReset())
            self.apply(ModeChanged(mode, self.settings.compute_unit if mode is Mode.OBSERVE else None))

    # --- deciding -----------------------------------------------------------------------------------------

    def decide(self) -> ActionSet:
        """Ask the core; `plan` is its answer without what the operator, a migration or caution forbid."""
        now = self.now()
        self.decided = next_actions(self.state, now)
        NEXT_ACTIONS.add()
        self.decided_ms = now
        if self.recorder is not None:
            self.recorder.decided(now, self.state, self.decided)
        self.plan = restrain(self, self.decided, now)
        return self.plan

    def why(self) -> str:
        """The last decision in a sentence, with what stands in its way."""
        by_hand = fixed_text(self.intents, self.now())
        return why_text(self.state, self.decided_ms, self.plan.reasons, by_hand)

    # --- status -------------------------------------------------------------------------------------------

    def tell_scheduler_is_new(self) -> None:
        """There is a scheduler, another than before."""
        self.apply(PluginNewScheduler())

    def monitor_answered(self) -> None:
        """The monitor gave a sign of life."""
        self.monitor_ok = self._clock.monotonic()

    def _endpoint_assigned(self, endpoint_id: str | None) -> None:
        self.endpoint_since = None if endpoint_id is None else self._clock.monotonic()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended by an error of its own; another one takes its place."""
        return self.status in FAILED

    def update_status(self) -> None:
        """Stuck or ok; each change is an event, once. One that has failed stays so."""
        update_status(self, self._clock.monotonic())

    def set_status(self, status: str, reason: str) -> None:
        """What the record and the dump show; `status_ms` is when it became another one."""
        if status != self.status:
            self.status, self.status_ms = status, self._clock.wall_ms()
        self.status_reason = reason
