"""From a plan to what is done about it: tasks, ticks, timers, driving actions.

`dispatch` looks at the runner's plan and sends an `upscale` or `downscale` task, or drives a mere tick
itself, or sets the timer. `run_task` is the body of the task.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from app.core.actions import ActionSet
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.log_context import log_context
from app.ports.runtime import Clock, Concurrency, Monotonic, TaskQueue
from app.ports.tracing import current_span, span, step
from app.services.agent_settings import MAX_SCALING_TASKS
from app.services.executors import Executors
from app.services.leave import effect
from app.services.runner import Runner
from app.services.scaling_kind import plan_target, scaling_kind
from app.services.timers import Timers
from app.services.turnstile import Turnstile
from app.services.wording import size_text

logger = logging.getLogger(__name__)

TASK_EXPIRES_S = 10.0
"""A scaling task not begun by then is dropped; the mark on its VM goes with it."""

MAX_STEPS = 20
"""Actions of one task; a plan that needs more goes on with the next tick."""

TICKS_AT_ONCE = 16
"""Mere ticks under way, those not counted that the scheduler leaves waiting; polls go first: more may run."""

RETRY_AFTER_OUTAGE_S = 1.0
"""Pause before a VM whose write or task could not be sent is looked at again."""


class Scaling:
    """Dispatches and drives the plans of all runners of a worker.

    Args:
        commit: write one runner through, fenced.
        crashed: called with a runner in which our own code failed.
    """

    def __init__(
        self,
        clock: Clock,
        concurrency: Concurrency,
        timers: Timers,
        queue: TaskQueue,
        executors: Executors,
        commit: Callable[[Runner], None],
        crashed: Callable[[Runner, Exception], None],
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._timers = timers
        self._queue = queue
        self._executors = executors
        self._commit = commit
        self._crashed = crashed
        self._sent: dict[str, Monotonic] = {}
        self._waiting: OrderedDict[str, tuple[Runner, str]] = OrderedDict()
        self._ticks = Turnstile(clock, concurrency, TICKS_AT_ONCE)
        self._ticking: set[Runner] = set()
        self.tasks_sent = 0

    def give_way(self, must: Callable[[], bool]) -> None:
        """Mere ticks let polls go first while this is so; called once, before anything runs."""
        self._ticks.give_way(must)

    def consider(self, runner: Runner) -> None:
        """Something happened to the VM: ask its core and act on the answer. Does not wait."""
        if runner.is_closed:
            return
        try:
            runner.decide()
        except Exception as err:  # noqa: BLE001 whoever asks goes on with the other VMs
            self._crashed(runner, err)
        else:
            self.dispatch(runner)

    def dispatch(self, runner: Runner) -> None:
        """Act on the plan that the runner has. Does not wait."""
        try:
            self._dispatch(runner)
        except Exception as err:  # noqa: BLE001 whoever asks goes on with the other VMs
            self._crashed(runner, err)

    def _dispatch(self, runner: Runner) -> None:
        if runner.is_closed or runner.is_busy or runner.is_leaving:
            return
        plan = runner.plan
        if runner.is_observed or not plan.has_requests:
            runner.wanted_ms = None
            self._set_timer(runner, plan)
            return
        kind = scaling_kind(runner.state, plan)
        if kind is not None and runner.wanted_ms is None:
            runner.wanted_ms = runner.now()
        if kind is None:
            if runner not in self._ticking:
                self._ticking.add(runner)
                self._concurrency.spawn(f"tick {runner.key}", lambda: self._run_tick(runner))
        elif runner.task_until is None or self._clock.monotonic() >= runner.task_until:
            runner.task_until = Monotonic(self._clock.monotonic() + TASK_EXPIRES_S)
            self._waiting[runner.key] = runner, current_span()
            self._concurrency.spawn("send scaling tasks", self._send_waiting)

    def run_task(self, runner: Runner, kind: str) -> str:
        """The body of an `upscale` or `downscale` task: drive the VM; what came of it, for the log."""
        self._sent.pop(runner.key, None)
        self._wake_waiting()
        if runner.is_closed or runner.is_busy:
            # Whoever drives it now looks again at its end, and may send another task.
            runner.task_until = None
            return "not here any more" if runner.is_closed else "busy"
        plan = runner.decide()
        if scaling_kind(runner.state, plan) != kind:
            runner.task_until = None
            self.dispatch(runner)
            return "the plan has changed"
        self._begin(runner)
        return self._drive(runner, kind)

    def forget(self, runner: Runner) -> None:
        """The runner is let go."""
        self._timers.cancel(runner.key)
        self._waiting.pop(runner.key, None)
        self._sent.pop(runner.key, None)

    def _begin(self, runner: Runner) -> None:
        runner.is_busy = True
        self._timers.cancel(runner.key)

    def _drive(self, runner: Runner, kind: str | None) -> str:
        """Carry out actions until none is left; the runner is busy and marked, and no longer after."""
        outcome, pause = "done", 0.0
        try:
            with log_context(vm=runner.key):
                outcome = self._drive_steps(runner, kind)
        except StoreUnavailable as err:
            outcome, pause = f"Redis gave no answer: {err.problem}", RETRY_AFTER_OUTAGE_S
        except OwnershipLost as err:
            outcome = str(err)
        except Exception as err:  # noqa: BLE001 the edge of a task: one VM's failure harms no other
            outcome = f"failed: {err}"
            self._crashed(runner, err)
        finally:
            runner.is_busy = False
            if kind is not None:
                runner.task_until = None
            if pause:
                self._timers.set(runner.key, pause)
            else:
                self.consider(runner)
            self._wake_waiting()
        return outcome

    def _run_tick(self, runner: Runner) -> None:
        """What changes no size, asked by the owner itself when there is a place for it."""
        try:
            with self._ticks.turn():
                self._ticking.discard(runner)
                if self._is_tick_due(runner):
                    self._begin(runner)
                    self._drive(runner, None)
                else:
                    self.dispatch(runner)
        except Exception as err:  # noqa: BLE001 the edge of a VM: one VM's failure harms no other
            self._crashed(runner, err)
        finally:
            self._ticking.discard(runner)

    def _is_tick_due(self, runner: Runner) -> bool:
        """Whether its core still wants a mere tick: it has waited, and others have driven it meanwhile."""
        if runner.is_closed or runner.is_busy or runner.is_leaving or runner.is_observed:
            return False
        plan = runner.decide()
        return plan.has_requests and scaling_kind(runner.state, plan) is None

    def _drive_steps(self, runner: Runner, kind: str | None) -> str:
        steps = 0
        plan = runner.decide()
        while plan.has_requests and not (runner.is_closed or runner.is_leaving) and steps < MAX_STEPS:
            if kind is None and scaling_kind(runner.state, plan) is not None:
                break
            self._perform(runner, plan)
            steps += 1
            plan = runner.decide()
        if not runner.is_closed:
            self._commit(runner)
        return f"{steps} steps"

    def _perform(self, runner: Runner, plan: ActionSet) -> None:
        """The first action of the plan; the core is asked again before the next."""
        with effect(runner):
            self._execute(runner, plan)

    def _execute(self, runner: Runner, plan: ActionSet) -> None:
        if plan.plugin is not None:
            with step("ask scheduler", vm=runner.key):
                self._executors.ask_scheduler(runner, plan.plugin)
        elif plan.platform is not None:
            with step("ask platform", vm=runner.key):
                self._executors.patch(runner, plan.platform, runner.why())
        elif plan.monitor_upscale is not None:
            with step("tell monitor", vm=runner.key):
                self._executors.tell_monitor(runner, plan.monitor_upscale)
        elif plan.monitor_downscale is not None:
            with step("ask monitor", vm=runner.key):
                self._executors.ask_monitor(runner, plan.monitor_downscale)

    def _set_timer(self, runner: Runner, plan: ActionSet) -> None:
        if plan.wait is not None and not runner.is_observed:
            self._timers.set(runner.key, plan.wait / 1000)

    def _wake_waiting(self) -> None:
        """A place may have become free."""
        if self._waiting:
            self._concurrency.spawn("send scaling tasks", self._send_waiting)

    def _send_waiting(self) -> None:
        """Send tasks for waiting VMs while there is room under the limit."""
        now = self._clock.monotonic()
        for key in [key for key, until in self._sent.items() if until <= now]:
            del self._sent[key]
        while self._waiting and len(self._sent) < MAX_SCALING_TASKS:
            _, (runner, trace) = self._waiting.popitem(last=False)
            kind = scaling_kind(runner.state, runner.plan)
            if runner.is_closed or runner.is_busy or kind is None:
                runner.task_until = None
                self.dispatch(runner)
                continue
            self._sent[runner.key] = Monotonic(now + TASK_EXPIRES_S)
            runner.task_until = Monotonic(now + TASK_EXPIRES_S)
            with span("send scaling task", parent=trace, vm=runner.key, kind=kind):
                self._send(runner, kind)

    def _send(self, runner: Runner, kind: str) -> None:
        slot_bytes = runner.vm.slot_bytes
        try:
            self._queue.send_scaling(
                kind,
                runner.bucket,
                runner.key,
                size_from=size_text(runner.state.vm.use, slot_bytes),
                size_to=size_text(plan_target(runner.state, runner.plan), slot_bytes),
                reason=runner.why(),
                expires_s=TASK_EXPIRES_S,
            )
            self.tasks_sent += 1
        except StoreUnavailable as err:
            logger.warning("scaling task not sent", extra={"vm": runner.key, "reason": err.problem})
            self._sent.pop(runner.key, None)
            runner.task_until = None
            self._timers.set(runner.key, RETRY_AFTER_OUTAGE_S)
