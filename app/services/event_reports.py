"""Tells sinks and webhooks what happens to the sizes of this worker's VMs (docs/events.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from app.core.resources import Resources, resources
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, FencingToken
from app.services.event_delivery import Delivery
from app.services.notices import NoticeRules, VmNotices
from app.services.runner import Runner
from app.services.scaling_events import AUDIT_KINDS, make_event

LOOK_EVERY_S = 2.0
"""How often desired sizes and conditions are looked at."""

RUNNERS_A_TURN = 200
"""That are looked at between two switches to other jobs; each costs some µs."""


class _Watched:
    """What is kept of a runner."""

    def __init__(self, notices: VmNotices) -> None:
        self.notices = notices
        self.told: tuple[Resources, Resources] | None = None


class EventReports:
    """An `AgentPart`: follows runners from their birth, and hands events to the deliveries."""

    def __init__(
        self,
        clock: Clock,
        concurrency: Concurrency,
        rules: NoticeRules,
        deliveries: tuple[Delivery, ...],
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._rules = rules
        self._deliveries = deliveries
        self._watched: dict[Runner, _Watched] = {}
        self._runners: Callable[[], Iterable[Runner]] = lambda: ()

    def connect(self, runners: Callable[[], Iterable[Runner]]) -> None:
        """Name who knows all runners; called once, before anything runs."""
        self._runners = runners

    def watch(self, runner: Runner) -> None:
        """A runner begins; its audit trail tells us from now on."""
        self._watched[runner] = _Watched(VmNotices(self._rules))
        runner.audit.listener = partial(self._heard, runner)

    # --- what the agent calls -----------------------------------------------------------------------------

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """See `AgentPart.jobs`."""
        return {"scaling events": self.run} | {
            f"events to {delivery.name}": delivery.run for delivery in self._deliveries
        }

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """See `AgentPart.acquired`; its runners have come to `watch`."""

    def lost(self, bucket: BucketName) -> None:
        """See `AgentPart.lost`; the next look lets its runners go."""

    def counters(self) -> dict[str, int]:
        """See `AgentPart.counters`."""
        return {name: count for each in self._deliveries for name, count in each.counters().items()}

    def problems(self) -> list[str]:
        """See `AgentPart.problems`."""
        return [delivery.problem for delivery in self._deliveries if delivery.problem]

    # --- looking ------------------------------------------------------------------------------------------

    def run(self, stop: Signal) -> None:
        """Look until stopped."""
        while not stop.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Tell of desired sizes that have changed, and of notices that begin or end."""
        current = list(self._runners())
        alive = set(current)
        for runner in [runner for runner in self._watched if runner not in alive]:
            del self._watched[runner]
        for count, runner in enumerate(current, start=1):
            if count % RUNNERS_A_TURN == 0:
                self._concurrency.sleep(0)
            watched = self._watched.get(runner)
            if watched is not None and runner.is_ready and not runner.is_closed:
                self._look_at(runner, watched)

    def _look_at(self, runner: Runner, watched: _Watched) -> None:
        actual = runner.state.vm.use
        desired = runner.decided.desired or actual
        if (desired, actual) != watched.told:
            # A size that has become what was desired is told by its resize.
            if desired != actual and (watched.told is None or watched.told[0] != desired):
                self._tell(runner, "desired", runner.why(), sizes=(actual, desired))
            watched.told = (desired, actual)
        for change in watched.notices.look(runner, self._clock.monotonic()):
            self._tell(runner, change.kind, change.why, state="began" if change.has_begun else "ended")

    def _heard(self, runner: Runner, entry: Mapping[str, Any]) -> None:
        kind = AUDIT_KINDS.get(entry["kind"])
        watched = self._watched.get(runner)
        if kind is None or watched is None:
            return
        watched.notices.heard(kind, entry["why"], self._clock.monotonic())
        self._tell(runner, kind, entry["why"], sizes=(_size(entry["from"]), _size(entry["to"])))

    def _tell(
        self,
        runner: Runner,
        kind: str,
        why: str,
        *,
        state: str | None = None,
        sizes: tuple[Resources | None, Resources | None] = (None, None),
    ) -> None:
        event = make_event(runner, kind, why, now_ms=self._clock.wall_ms(), state=state, sizes=sizes)
        for delivery in self._deliveries:
            delivery.put(event)


def _size(size: Mapping[str, int] | None) -> Resources | None:
    return None if size is None else resources(size["cpu_m"], size["mem"])
