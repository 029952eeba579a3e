"""One worker process: its leases, runners and jobs, wired and run.

Built by `app.bootstrap`, started by the worker's boot step. Tasks call `tick`, `poll_bucket` and `scale`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from app.core.events import PluginGone
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.endpoint import Endpoint
from app.ports.registry import AgentRegistry
from app.ports.runtime import Clock, Concurrency, Job, Signal
from app.ports.store import BucketName, FencingToken, Holder, IntentStore, TickStore
from app.ports.vm import VmKey
from app.services.agent_part import AgentPart
from app.services.agent_settings import AgentSettings
from app.services.announcing import Announcement
from app.services.executors import Executors
from app.services.fleet_problems import fleet_problems
from app.services.informants import Informants
from app.services.looking import Looking
from app.services.ownership import Ownership
from app.services.polling import Polling
from app.services.progress import Progress
from app.services.recording import Recordings, is_recording
from app.services.runner import Runner
from app.services.scaling import Scaling
from app.services.scheduler_link import SchedulerLink
from app.services.stats import Stats
from app.services.supervisor import Supervisor
from app.services.taking_up import take_up
from app.services.timers import Timers
from app.services.turns import take_turns

logger = logging.getLogger(__name__)

PUBLISH_EVERY_S = 1.0
"""How often a worker tells the registry about itself."""

MAX_POLLS_OF_A_BUCKET = 2
"""A tick that finds so many of its bucket still running is dropped: the pool must never be full."""

MAX_NAMED = 20
"""VMs that are left alone, named in the registry; its entries are small."""

UNREGISTER_S = 2.0
"""At the end, for informants to be told; the leases are released before."""


class Agent:
    """A worker's services, running between `start` and `stop`.

    Args:
        facts: for the registry, beside counters: name, address, version, pid.

    Attributes:
        counts: more numbers for the registry, read each time.
        shown: more facts, likewise.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        concurrency: Concurrency,
        holder: Holder,
        ticks: TickStore,
        intents: IntentStore,
        registry: AgentRegistry,
        facts: dict[str, Any],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._concurrency = concurrency
        self._holder = holder
        self._ticks = ticks
        self._intents = intents
        self._announcement = Announcement(registry, holder.agent_id, self._facts_now)
        self._facts = facts
        self._stop: Signal = concurrency.signal()
        self._jobs: list[Job] = []
        self.counts: dict[str, Callable[[], int]] = {}
        self.shown: dict[str, Callable[[], object]] = {}
        self._informants: Informants | None = None
        self._stats: Stats | None = None
        self._endpoint: Endpoint | None = None
        self._parts: list[AgentPart] = []
        self.progress: Progress | None = None
        self._seen: dict[BucketName, int] = {}
        self._polls_of: dict[BucketName, int] = {}
        self._queues_changed: Callable[[], None] = lambda: None
        self.timers = Timers(clock, concurrency, self._timer_fired)

    def connect(
        self,
        ownership: Ownership,
        supervisor: Supervisor,
        scheduler_link: SchedulerLink,
        executors: Executors,
        scaling: Scaling,
        polling: Polling,
        recordings: Recordings,
    ) -> None:
        """Name the parts; called once by bootstrap."""
        self.ownership = ownership
        self.supervisor = supervisor
        self.scheduler_link = scheduler_link
        self.executors = executors
        self.scaling = scaling
        self.polling = polling
        self.recordings = recordings
        scaling.give_way(lambda: polling.is_pressed)
        supervisor.give_way(lambda: polling.is_pressed)

    def register_with(self, informants: Informants) -> None:
        """Be an agent of each VM's informant; called once by bootstrap, or not at all."""
        self._informants = informants
        self.supervisor.register_with(informants)

    def forward_stats(self, stats: Stats) -> None:
        """Bring stats to their VMs' owners; called once by bootstrap, or not at all."""
        self._stats = stats

    def serve(self, endpoint: Endpoint) -> None:
        """Run our HTTP server; called once by bootstrap, or not at all."""
        self._endpoint = endpoint

    def add_part(self, part: AgentPart) -> None:
        """Let it follow our buckets and run its jobs; called by bootstrap, before anything runs."""
        self._parts.append(part)

    def watch(self, progress: Progress) -> None:
        """Keep account of our own progress; called once by bootstrap, or not at all."""
        self.progress = progress

    # --- life ---------------------------------------------------------------------------------------------

    def start(self, queues_changed: Callable[[], None]) -> None:
        """Spawn the jobs; `queues_changed` is called whenever `held_buckets` may have changed."""
        self._queues_changed = queues_changed
        looking = Looking(
            (self._clock, self._concurrency),
            self.supervisor,
            self.ownership,
            self.executors,
            self.scaling,
            look_s=self._settings.platform_timeout_s,
        )
        jobs: dict[str, Callable[[], None]] = {
            "leases": lambda: self.ownership.run(self._stop, self._concurrency),
            "inventory": lambda: self.supervisor.run_inventory(self._stop),
            "scheduler": lambda: self.scheduler_link.run(self._stop),
            "timers": lambda: self.timers.run(self._stop),
            "sizes": partial(looking.run_looks, self._stop),
            "overdue": partial(looking.run_overdue, self._stop),
            "registry": self._run_publishing,
            "recordings": lambda: self.recordings.run(self._stop),
        }
        if self._informants is not None:
            jobs["informants"] = partial(self._informants.run, self._stop)
        if self._stats is not None:
            jobs["stats"] = partial(self._stats.run, self._stop)
        if self._endpoint is not None:
            jobs["endpoint"] = partial(self._endpoint.run, self._stop)
        if self.progress is not None:
            jobs["progress"] = partial(self.progress.run, self._stop)
        for part in self._parts:
            jobs |= {name: partial(run, self._stop) for name, run in part.jobs().items()}
        self._jobs = [
            self._concurrency.spawn(name, partial(self._keep_running, name, run))
            for name, run in jobs.items()
        ]

    def _keep_running(self, name: str, run: Callable[[], None]) -> None:
        """A job that fails is begun again: without it the worker would be there and do nothing."""
        while not self._stop.is_set():
            try:
                run()
            except Exception:
                logger.exception("job failed, begun again", extra={"job": name})
                self._stop.wait(1.0)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Hand everything over and end the jobs; the second time does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        try:
            self.supervisor.dial_no_more()
            self.ownership.release_all()
        except StoreUnavailable as err:
            logger.warning("leases not released: they will expire", extra={"reason": err.problem})
        if self._stats is not None:
            self._stats.stop()
        self._announcement.end()
        if self._informants is not None:
            self._informants.finish(UNREGISTER_S)
        deadline = self._clock.monotonic() + timeout_s
        for job in self._jobs:
            if not job.join(max(deadline - self._clock.monotonic(), 0.0)):
                job.cancel()
        self.recordings.close()

    def take_settings(self, newer: AgentSettings) -> None:
        """The configuration has changed: these count from now on, for the VMs that are here too."""
        self._settings.take_over(newer)
        for runner in self.supervisor.runners():
            runner.settings_changed()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop.is_set()

    def held_buckets(self) -> frozenset[BucketName]:
        """Buckets whose queues are to be consumed now."""
        return frozenset(self.ownership.held())

    # --- what tasks call ----------------------------------------------------------------------------------

    def due_buckets(self, total: int) -> Sequence[tuple[BucketName, int]]:
        """See `take_turns`."""
        return take_turns(self._ticks, self.ownership, total=total, period_s=self._settings.poll_period_s)

    def poll_bucket(self, bucket: BucketName, seq: int) -> str:
        """One tick of a bucket: intents, polls, commits, dispatch; what came of it, for the log."""
        if seq <= self._seen.get(bucket, 0):
            return "not newer"
        if self._polls_of.get(bucket, 0) >= MAX_POLLS_OF_A_BUCKET:
            return "its last polls are not over"
        self._seen[bucket] = seq
        return self._poll(bucket)

    def _poll(self, bucket: BucketName) -> str:
        self._polls_of[bucket] = self._polls_of.get(bucket, 0) + 1
        try:
            guard = self.ownership.guard(bucket)
            guard.check()
            self.read_stats(bucket)
            runners = self.supervisor.runners_of(bucket)
            if not runners:
                return "no VMs"
            self._take_up_intents(bucket, runners)
            self.polling.poll(runners, guard)
        except OwnershipLost as err:
            return str(err)
        except StoreUnavailable as err:
            logger.warning("tick cut short", extra={"bucket": bucket, "reason": err.problem})
            return f"Redis gave no answer: {err.problem}"
        finally:
            self._polls_of[bucket] -= 1
        return f"{len(runners)} VMs"

    def scale(self, kind: str, bucket: BucketName, key: VmKey) -> str:
        """The body of an upscale or downscale task; what came of it."""
        runner = self.supervisor.runner(bucket, key)
        if runner is None:
            return "not here"
        return self.scaling.run_task(runner, kind)

    def read_stats(self, bucket: BucketName) -> None:
        """Stats may wait in the queue of a bucket; nothing happens where it is another worker's."""
        if self._stats is not None:
            self._stats.read(bucket)

    # --- callbacks ----------------------------------------------------------------------------------------

    def bucket_acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """A lease was won."""
        self._seen.pop(bucket, None)
        self.supervisor.acquired(bucket, token)
        self._take_up_intents(bucket, self.supervisor.runners_of(bucket))
        if self._stats is not None:
            self._stats.acquired(bucket, token)
        for part in self._parts:
            part.acquired(bucket, token)
        self._queues_changed()
        self._concurrency.spawn(f"first poll of {bucket}", partial(self._poll_first, bucket))

    def bucket_lost(self, bucket: BucketName) -> None:
        """A lease is gone."""
        for part in self._parts:
            part.lost(bucket)
        if self._stats is not None:
            self._stats.lost(bucket)
        self.supervisor.lost(bucket)
        self._queues_changed()

    def bucket_releasing(self, bucket: BucketName) -> None:
        """A lease is about to be handed over: stop consuming, finish, save."""
        self._queues_changed()
        if self._stats is not None:
            self._stats.lost(bucket)
        for part in self._parts:
            part.lost(bucket)
        self.supervisor.releasing(bucket)

    def scheduler_changed(self, is_there: bool) -> None:
        """Another scheduler, or none."""
        for runner in self.supervisor.runners():
            try:
                if is_there:
                    runner.tell_scheduler_is_new()
                else:
                    runner.apply(PluginGone())
            except Exception as err:  # noqa: BLE001 the edge of a VM: the others are told
                self.supervisor.crashed(runner, err)
            self.scaling.consider(runner)

    def bucket_fenced(self, bucket: BucketName, token: FencingToken) -> None:
        """Redis refused a write: a newer owner has the bucket. A lease won since is another one."""
        try:
            is_current = self.ownership.guard(bucket).token == token
        except OwnershipLost:
            return
        if is_current:
            self.ownership.drop(bucket)

    def _poll_first(self, bucket: BucketName) -> None:
        """Ticks that were sent during a hand-over are lost: measured, some VMs missed two of them."""
        logger.debug("bucket polled first", extra={"bucket": bucket, "outcome": self._poll(bucket)})

    def _timer_fired(self, key: object) -> None:
        name = VmKey(str(key))
        runner = self.supervisor.runner(self.supervisor.bucket_of(name), name)
        if runner is not None:
            self.scaling.consider(runner)

    def _take_up_intents(self, bucket: BucketName, runners: list[Runner]) -> None:
        intents = self._intents.list(bucket)
        self.recordings.take_up(bucket, runners, intents)
        for runner in take_up([intent for intent in intents if not is_recording(intent)], runners):
            self.supervisor.relink(runner)
            self.scaling.consider(runner)

    # --- jobs ---------------------------------------------------------------------------------------------

    def _run_publishing(self) -> None:
        while not self._stop.is_set():
            self._announcement.refresh()
            # Also when nothing has changed: a queue change that failed in the consumer is made good here.
            self._queues_changed()
            self._stop.wait(PUBLISH_EVERY_S)

    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        problems = [self.ownership.problem] if self.ownership.problem else []
        problems += fleet_problems(self.supervisor)
        problems += [self.scheduler_link.problem] if self.scheduler_link.problem else []
        if self._informants is not None:
            problems += self._informants.problems
        if self._stats is not None:
            problems += self._stats.problems()
        problems += [text for part in self._parts for text in part.problems()]
        if self.progress is not None:
            problems += self.progress.problems()
        if self._endpoint is not None and self._endpoint.problem:
            problems.append(self._endpoint.problem)
        return problems

    def counters(self) -> dict[str, int]:
        """Counts for the registry, by name."""
        return {
            "polls": self.polling.polls,
            "poll_failures": self.polling.failures,
            "skipped_polls": self.polling.skipped,
            "scaling_tasks": self.scaling.tasks_sent,
            **{name: read() for name, read in self.counts.items()},
            **({} if self._informants is None else self._informants.counts),
            **({} if self._stats is None else self._stats.counters()),
            **{name: count for part in self._parts for name, count in part.counters().items()},
        }

    def _facts_now(self) -> dict[str, Any]:
        return {
            **self._facts,
            "kind": "worker",
            "identity": self._holder.identity,
            "agent_id": self._holder.agent_id,
            "clock_ms": self._clock.wall_ms(),
            "address": None if self._endpoint is None else self._endpoint.address,
            "buckets": sorted(self.held_buckets()),
            "vms": len(self.supervisor.runners()),
            "counters": self.counters(),
            **{name: read() for name, read in self.shown.items()},
            "problems": self.problems(),
            "left_alone": self.supervisor.left_alone()[:MAX_NAMED],
        }
