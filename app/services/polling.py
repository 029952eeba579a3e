"""One tick of a bucket: fetch every VM's page, parse, apply, commit in batches, dispatch.

Nothing sleeps here and no VM waits for a slow neighbour: at most 32 polls at once a worker, those that have
waited over 0.2 s for their peer not counted; a commit every 50 VMs or 100 ms; decisions follow at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from app.errors import InvalidInput, OwnershipLost, PeerError, PeerUnreachable
from app.ports.log_context import log_context
from app.ports.own_metrics import POLL_FAILURES, POLLS, POLLS_SKIPPED
from app.ports.peers import MetricsSource
from app.ports.runtime import Clock, Concurrency, Monotonic, Signal
from app.protocols.prometheus_text import read_sample
from app.services.agent_settings import (
    COMMIT_EVERY_S,
    COMMIT_EVERY_VMS,
    MAX_POLLS,
    MAX_SLOW_POLLS,
    SLOW_POLL_S,
    AgentSettings,
)
from app.services.counting import outcome_of
from app.services.guarding import Guard
from app.services.rhythm import Rhythm
from app.services.runner import Runner

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05
"""How often slow polls are told from quick ones."""


class PollSlots:
    """Places for polls under way, shared by all buckets of a worker; for other waits for peers, too.

    Args:
        quick: so many at once, those not counted that have waited long.
    """

    def __init__(self, clock: Clock, quick: int = MAX_POLLS) -> None:
        self._clock = clock
        self._limit = quick
        self._quick: dict[int, Monotonic] = {}
        self._slow: set[int] = set()
        self._count = 0

    @property
    def taken(self) -> int:
        """Places of those that have not waited long."""
        return len(self._quick)

    def try_take(self) -> int | None:
        """A place, or None while all are taken."""
        if len(self._quick) >= self._limit:
            self._sort_out()
            if len(self._quick) >= self._limit:
                return None
        self._count += 1
        self._quick[self._count] = self._clock.monotonic()
        return self._count

    def free(self, place: int) -> None:
        """The poll is over."""
        self._quick.pop(place, None)
        self._slow.discard(place)

    def _sort_out(self) -> None:
        before = self._clock.monotonic() - SLOW_POLL_S
        for place in [place for place, begun in self._quick.items() if begun < before]:
            if len(self._slow) >= MAX_SLOW_POLLS:
                return
            del self._quick[place]
            self._slow.add(place)


class Polling:
    """Polls buckets.

    Args:
        commit: write these runners through, fenced; raises OwnershipLost or StoreUnavailable.
        dispatch: act on a runner's plan; does not wait.
        crashed: called with a runner in which our own code failed.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        concurrency: Concurrency,
        source: MetricsSource,
        commit: Callable[[Sequence[Runner]], None],
        dispatch: Callable[[Runner], None],
        crashed: Callable[[Runner, Exception], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._concurrency = concurrency
        self._source = source
        self._commit = commit
        self._dispatch = dispatch
        self._crashed = crashed
        self._slots = PollSlots(clock)
        self._rhythm = Rhythm(clock, settings)
        self._polled_now: set[str] = set()
        self._waiting = 0
        self.polls = 0
        self.failures = 0
        self.skipped = 0

    @property
    def is_pressed(self) -> bool:
        """Whether polls wait for a place, as at a take-over: what else there is to ask gives way."""
        return self._waiting > 0

    def poll(self, runners: Sequence[Runner], guard: Guard) -> None:
        """Poll these runners of one bucket; returns when each has been committed and dispatched.

        Raises:
            OwnershipLost: the lease ended on the way; the rest was left alone.
            StoreUnavailable: a commit failed; the next tick repairs it.
        """
        tick = _Tick(self._clock, self._concurrency.signal())
        with self._rhythm.tick(runners, guard):
            self._poll_all(tick, runners, guard)

    def _poll_all(self, tick: _Tick, runners: Sequence[Runner], guard: Guard) -> None:
        for runner in runners:
            if runner.key in self._polled_now:
                self.skipped += 1
                POLLS_SKIPPED.add()
                continue
            place = self._take_place(tick)
            try:
                guard.check()
            except OwnershipLost:
                self._slots.free(place)
                raise
            tick.outstanding += 1
            self._polled_now.add(runner.key)
            self._concurrency.spawn(f"poll {runner.key}", self._job(runner, place, guard, tick))
        while tick.outstanding:
            self._settle(tick, tick.progress.wait(LOOK_EVERY_S))
        self._flush(tick)

    def _take_place(self, tick: _Tick) -> int:
        """A place for one more poll; what has come meanwhile is committed."""
        place = self._slots.try_take()
        if place is not None:
            return place
        self._waiting += 1
        try:
            while place is None:
                self._settle(tick, tick.progress.wait(LOOK_EVERY_S))
                place = self._slots.try_take()
        finally:
            self._waiting -= 1
        return place

    def _job(self, runner: Runner, place: int, guard: Guard, tick: _Tick) -> Callable[[], None]:
        def run() -> None:
            try:
                with log_context(vm=runner.key):
                    self._poll_one(runner, guard)
                tick.done.append(runner)
            except OwnershipLost:
                logger.info("poll dropped: the lease is gone", extra={"vm": runner.key})
            except Exception as err:  # noqa: BLE001 the edge of a job: one VM's failure harms no other
                self._crashed(runner, err)
            finally:
                self._slots.free(place)
                self._polled_now.discard(runner.key)
                tick.outstanding -= 1
                tick.progress.set()

        return run

    def _poll_one(self, runner: Runner, guard: Guard) -> None:
        if runner.vm.metrics is not None and not runner.vm.migrating:
            self.polls += 1
            POLLS.add()
            try:
                timeout_s = guard.limit_s(self._settings.metrics_timeout_s)
                page = self._source.fetch(runner.vm.metrics, timeout_s=timeout_s)
                sample = read_sample(page, self._settings.metrics_prefix)
            except (PeerError, InvalidInput) as err:
                self.failures += 1
                POLL_FAILURES.add(outcome_of(err))
                runner.reject_sample(_cause(err))
            else:
                runner.take_sample(sample)
        runner.update_status()
        runner.decide()

    def _settle(self, tick: _Tick, has_progress: bool) -> None:
        """Commit what is ready, when there is enough of it or it has waited long enough."""
        if has_progress:
            tick.progress.clear()
        if tick.done and (len(tick.done) >= COMMIT_EVERY_VMS or tick.is_due() or not tick.outstanding):
            self._flush(tick)

    def _flush(self, tick: _Tick) -> None:
        batch, tick.done = [runner for runner in tick.done if not runner.is_closed], []
        tick.flushed = self._clock.monotonic()
        if batch:
            self._commit(batch)
            for runner in batch:
                self._dispatch(runner)


class _Tick:
    """One call of `poll`: what is under way and what waits for its commit."""

    def __init__(self, clock: Clock, progress: Signal) -> None:
        self._clock = clock
        self.progress = progress
        self.outstanding = 0
        self.done: list[Runner] = []
        self.flushed = clock.monotonic()

    def is_due(self) -> bool:
        """Whether the last commit was long enough ago."""
        return self._clock.monotonic() - self.flushed >= COMMIT_EVERY_S


def _cause(err: PeerError | InvalidInput) -> str:
    """The failure as text, the same for the same cause."""
    if isinstance(err, PeerUnreachable):
        return f"no connection to the metrics page at {err.peer}: {err.problem}"
    return str(err)
