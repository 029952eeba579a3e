"""Looks after VMs whose resize was accepted and not yet seen: is it done, or overdue?"""

from __future__ import annotations

from functools import partial

from app.errors import OwnershipLost
from app.ports.runtime import Clock, Concurrency, Signal
from app.services.executors import Executors
from app.services.guarding import Guards
from app.services.runner import Runner
from app.services.scaling import Scaling
from app.services.supervisor import Supervisor

LOOK_EVERY_S = 1.0
"""How often the real sizes are read."""

LOOK_AFTER_MS = 2_000
"""The platform's watch tells sooner, as a rule; a size is read only where it has not."""

MAX_LOOKS = 32
"""Real sizes read at once."""


class Looking:
    """Two jobs of a worker.

    Args:
        look_s: longest that reading one size takes.
    """

    def __init__(
        self,
        runtime: tuple[Clock, Concurrency],
        supervisor: Supervisor,
        guards: Guards,
        executors: Executors,
        scaling: Scaling,
        *,
        look_s: float,
    ) -> None:
        self._clock, self._concurrency = runtime
        self._supervisor = supervisor
        self._guards = guards
        self._executors = executors
        self._scaling = scaling
        self._look_s = look_s

    def run_overdue(self, stop: Signal) -> None:
        """Give up, until stopped, what was not observed in time."""
        while not stop.wait(LOOK_EVERY_S):
            for runner in self._supervisor.runners():
                if runner.awaits_observation and runner.check_overdue():
                    self._scaling.consider(runner)

    def run_looks(self, stop: Signal) -> None:
        """Read real sizes until stopped.

        Those whose turn is longest ago come first, so that a silent platform holds up nobody for ever.
        """
        looked: dict[str, float] = {}
        while not stop.wait(LOOK_EVERY_S):
            pending = [
                runner
                for runner in self._supervisor.runners()
                if runner.awaits_observation
                and not runner.is_observed
                and runner.operation_age_ms >= LOOK_AFTER_MS
            ]
            looked = {runner.key: looked.get(runner.key, 0.0) for runner in pending}
            pending.sort(key=lambda runner: looked[runner.key])
            jobs = []
            for runner in pending[:MAX_LOOKS]:
                looked[runner.key] = self._clock.monotonic()
                jobs.append(self._concurrency.spawn(f"look {runner.key}", partial(self._look, runner)))
            for job in jobs:
                job.join(self._look_s + 1)

    def _look(self, runner: Runner) -> None:
        try:
            self._executors.look(runner, self._guards.guard(runner.bucket))
        except OwnershipLost:
            return
        self._scaling.consider(runner)
