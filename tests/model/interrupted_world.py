"""A world of workers on one Redis in which each call can be interrupted, and what must hold at all times.

Time is the model's: it passes in steps of 0.1 s. Each job of a worker runs in a greenlet of its own, as in a
real one: while a call waits or a hand-over sleeps, the worker's other jobs and all other workers go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import greenlet

from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from app.errors import StoreUnavailable
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, LeaseStore, StateStore
from app.ports.vm import VmKey
from tests.model.interrupted_worker import Killed, ModelWorker

TOTAL = 3
NAMES = [BucketName(name) for name in bucket_names(TOTAL)]
VM = VmKey("ns/vm")
STEP_S = 0.1
CUT_OFF_S = 5.0

_Result = TypeVar("_Result")


class ModelRedis(Protocol):
    """The Redis of a world, in memory or a real one, with its clock under the test's control."""

    leases: LeaseStore
    states: StateStore
    clock: Clock

    def advance(self, seconds: float) -> None:
        """Time passes, for Redis and for the workers."""
        ...

    def lose_everything(self) -> None:
        """All keys are gone."""
        ...

    def begin_epoch(self) -> None:
        """It has restarted with its data."""
        ...

    def keep(self) -> object:
        """All keys, as a replica has them now."""
        ...

    def fail_over(self, kept: object) -> None:
        """A replica that had got this far is the master now."""
        ...


@dataclass(frozen=True)
class Fault:
    """What happens at one call.

    Attributes:
        when: `before` Redis has applied the call, or `after`.
        what: `nothing`; `late` (the call waits, other jobs go on); `stopped` (the whole process); `killed`;
            `late, then cut off` (from Redis, for a while); `stopped while keys are lost`; or of Redis:
            `loses keys`, `restarts`, `fails over`.
        seconds: how long; for `fails over`: how much later the replica is.
        is_answered: False: the caller gets no answer; before: the call does not reach Redis.
    """

    when: str
    what: str
    seconds: float = 0.0
    is_answered: bool = True

    def __str__(self) -> str:
        answer = "" if self.is_answered else " no answer"
        return f"{self.when} {self.what} {self.seconds:g}{answer}"

    @property
    def is_of_redis(self) -> bool:
        """Whether it is followed by a lease duration of silence."""
        return self.what in ("loses keys", "restarts", "fails over")


class World:
    """Workers, their Redis, the fault at the `at`-th call, and the journal that the invariants are read from.

    Attributes:
        granted: per bucket the tokens that Redis gave, in order, over all its losses.
        seen: per bucket the highest token that Redis has seen since it last lost anything.
        acked: per bucket the highest value whose write was acknowledged and not lost by Redis itself.
        longest_gap_s: the longest time that a bucket had no owner at work.
        scale: seconds of Redis' and the workers' clocks in one of the model: a real Redis takes its own time.
    """

    def __init__(
        self, redis: ModelRedis, times: LeaseTimes, fault: Fault | None = None, at: int = -1, scale: int = 1
    ) -> None:
        self.redis, self.times, self.scale = redis, times, scale
        self.fault, self.at = fault, at
        self.calls: list[str] = []
        self.workers: list[ModelWorker] = []
        self.granted: dict[BucketName, list[int]] = {name: [] for name in NAMES}
        self.seen: dict[BucketName, int] = {}
        self.acked: dict[BucketName, int] = {}
        self.receiver_seen: dict[BucketName, int] = {}
        self.late_sends = self.losses = 0
        self.longest_gap_s = 0.0
        self._kept: list[tuple[float, object, dict[BucketName, int], dict[BucketName, int]]] = []
        self._steps = 0
        self._sleepers: list[tuple[ModelWorker, int, greenlet.greenlet]] = []
        self._last_owned = dict.fromkeys(NAMES, self.now)
        self._excused_until = self.now
        # The very first start waits for a lease duration; here that is over.
        ghost = ModelWorker(self, "ghost").holder
        redis.leases.round(ghost, {})
        redis.leases.leave(ghost)
        redis.advance((times.duration_s + 1) * scale)
        self._excuse(1.0)
        self._keep_copy()

    @property
    def now(self) -> float:
        """The model's time in seconds."""
        return self.redis.clock.monotonic() / self.scale

    def start(self, name: str) -> ModelWorker:
        """A worker process begins."""
        self.workers.append(ModelWorker(self, name))
        return self.workers[-1]

    def pass_time(self, seconds: float) -> None:
        """Let time pass: whoever slept long enough goes on, everybody's loops begin their next rounds."""
        for _ in range(round(seconds / STEP_S)):
            self._keep_copy()
            self.redis.advance(STEP_S * self.scale)
            self._steps += 1
            due = [sleeper for sleeper in self._sleepers if self._is_awake(*sleeper)]
            self._sleepers = [sleeper for sleeper in self._sleepers if sleeper not in due]
            for _, _, job in due:
                job.switch()
            for worker in self.workers:
                if not worker.is_stopped:
                    worker.run_jobs(self._steps)
            self.check()

    def sleep(self, worker: ModelWorker, seconds: float) -> None:
        """What a worker's job waits for; others go on meanwhile."""
        job = greenlet.getcurrent()
        self._sleepers.append((worker, self._steps + round(seconds / STEP_S), job))
        job.parent.switch()

    def _is_awake(self, worker: ModelWorker, step: int, job: greenlet.greenlet) -> bool:
        if worker.is_dead:
            return False
        return self._steps >= step and (not worker.is_stopped or job is worker.stopped_in)

    # --- calls ----------------------------------------------------------------------------------------------

    def call(
        self, worker: ModelWorker, name: str, apply: Callable[[], _Result], limit_s: float = 999
    ) -> _Result:
        """One call of a worker to Redis or to a receiver, with the fault if it is its turn."""
        fault = self.fault if len(self.calls) == self.at else None
        self.calls.append(f"{worker.name} {name}")
        self.check()
        if fault is not None and fault.when == "before":
            self._inflict(worker, fault, limit_s)
            if not fault.is_answered:
                raise StoreUnavailable("redis", "the question was lost")
            if name in ("renew", "acquire"):
                self._excuse(0.0)  # Redis counts the lease from now on
        if self.now < worker.cut_off_until:
            raise StoreUnavailable("redis", "can't be reached")
        result = apply()
        if fault is not None and fault.when == "after":
            self._inflict(worker, fault, limit_s)
            if not fault.is_answered:
                raise StoreUnavailable("redis", "the answer was lost")
        return result

    def _inflict(self, worker: ModelWorker, fault: Fault, limit_s: float) -> None:
        if fault.what == "killed":
            worker.is_dead = True
            raise Killed
        if fault.what == "late":
            # Beside it the worker renews: it holds what it has not begun, for as long as its client waits.
            self._excuse(fault.seconds - self.times.duration_s)
            self.sleep(worker, min(fault.seconds, limit_s / self.scale))
        elif fault.what == "stopped":
            self._stop(worker, fault.seconds)
        elif fault.what == "late, then cut off":
            self.sleep(worker, min(fault.seconds, limit_s / self.scale))
            worker.cut_off_until = self.now + CUT_OFF_S
            self._excuse(0.0)  # until now it renewed what it could not begin
        elif fault.what == "stopped while keys are lost":
            # The others have taken over by then, and assert what they hold before this one wakes up.
            self._stop(worker, fault.seconds - 3.0)
            self._excuse(self.times.duration_s)
            self.redis.lose_everything()
            self._lose({}, {})
            self._stop(worker, 3.0)
        elif fault.what == "loses keys":
            self.redis.lose_everything()
            self._lose({}, {})
        elif fault.what == "restarts":
            self.redis.begin_epoch()
        elif fault.what == "fails over":
            self._fail_over(fault.seconds)
        if fault.is_of_redis:
            self._excuse(self.times.duration_s)
        if not fault.is_answered:
            self._excuse(0.0)

    def _stop(self, worker: ModelWorker, seconds: float) -> None:
        worker.stopped_in = greenlet.getcurrent()
        self.sleep(worker, seconds)
        worker.stopped_in = None

    def _keep_copy(self) -> None:
        if self.fault is not None and self.fault.what == "fails over" and len(self.calls) <= self.at:
            self._kept.append((self.now, self.redis.keep(), dict(self.seen), dict(self.acked)))

    def _fail_over(self, age_s: float) -> None:
        old_enough = [copy for copy in self._kept if copy[0] <= self.now - age_s]
        _, kept, seen, acked = (old_enough or self._kept[:1])[-1]
        self.redis.fail_over(kept)
        self._lose(seen, acked)

    def _lose(self, seen: dict[BucketName, int], acked: dict[BucketName, int]) -> None:
        """Redis has only so much left; nobody can be blamed for the rest."""
        self.losses += 1
        self.seen, self.acked = dict(seen), dict(acked)

    def _excuse(self, seconds: float) -> None:
        self._excused_until = max(self._excused_until, self.now + seconds)

    # --- the journal ----------------------------------------------------------------------------------------

    def note_grants(self, taken: dict[BucketName, FencingToken]) -> None:
        """Redis has given tokens: each is above all that it ever gave for its bucket."""
        for bucket, token in taken.items():
            assert token > max(self.granted[bucket], default=0), f"the token of {bucket} went down"
            self.granted[bucket].append(token)
            self.note_seen(bucket, token)

    def note_seen(self, bucket: BucketName, token: int) -> None:
        """Redis knows of this token from now on."""
        self.seen[bucket] = max(self.seen.get(bucket, 0), token)

    def note_write(self, bucket: BucketName, token: int, value: int) -> None:
        """A write was applied: none with an old token is, none makes a state older."""
        assert token >= self.seen.get(bucket, 0), f"an old token wrote to {bucket}"
        assert token == self.granted[bucket][-1], f"the state of {bucket} was written by an earlier owner"
        assert value >= self.acked.get(bucket, 0), f"the state of {bucket} went back"
        self.note_seen(bucket, token)

    def note_ack(self, bucket: BucketName, value: int, losses: int) -> None:
        """The writer knows that its write is safe, if Redis has not lost it since."""
        if losses == self.losses:
            self.acked[bucket] = max(self.acked.get(bucket, 0), value)

    def note_load(self, bucket: BucketName, value: int) -> None:
        """A new owner goes on from this: from all that was acknowledged."""
        assert value >= self.acked.get(bucket, 0), f"an acknowledged write to {bucket} was lost"

    def receive(self, bucket: BucketName, token: int) -> bool:
        """A receiver outside Redis, that refuses an old token; whether the effect was applied.

        One that can't refuse would apply it: that happens only to the one send that was past its check when
        its process was stopped.
        """
        if token != self.granted[bucket][-1]:
            assert self.fault is not None
            assert self.fault.what.startswith("stopped"), f"{bucket}: an earlier owner's effect"
            self.late_sends += 1
        is_taken = token >= self.receiver_seen.get(bucket, 0)
        self.receiver_seen[bucket] = max(self.receiver_seen.get(bucket, 0), token)
        return is_taken

    # --- what must hold -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nobody but the one with the newest token may begin anything; no bucket is left alone for long."""
        for bucket in NAMES:
            permitted = [worker for worker in self.workers if worker.may_work_on(bucket)]
            assert len(permitted) <= 1, f"two may work on {bucket}: {[worker.name for worker in permitted]}"
            for worker in permitted:
                token = worker.ownership.guard(bucket).token
                assert token == self.granted[bucket][-1], (
                    f"{worker.name} may work on {bucket} with an old token"
                )
                if bucket in worker.values and not worker.is_stopped:
                    self._last_owned[bucket] = self.now
            if not any(worker.is_there for worker in self.workers):
                self._last_owned[bucket] = self.now
            gap = self.now - max(self._last_owned[bucket], self._excused_until)
            self.longest_gap_s = max(self.longest_gap_s, gap)
            assert gap <= self.times.duration_s + 1.0 + STEP_S / 2, f"{bucket} has no owner for {gap:.1f} s"

    def recover(self) -> None:
        """The fault is over: within a lease, the silence of a new epoch and some rounds all is well again."""
        while any(worker.is_stopped or self.now < worker.cut_off_until for worker in self.workers):
            self.pass_time(1.0)
        for _ in range(round(2 * self.times.duration_s) + 4):
            self.pass_time(1.0)
            try:
                self.check_all_is_well()
            except AssertionError:
                continue
            return
        self.check_all_is_well()

    def check_all_is_well(self) -> None:
        """Every bucket has one owner at work, and nobody more than its share."""
        there = [worker for worker in self.workers if worker.is_there]
        held = [worker.ownership.held() for worker in there]
        assert sorted(bucket for of in held for bucket in of) == NAMES
        assert all(len(of) <= -(-TOTAL // len(there)) for of in held)
        for worker, of in zip(there, held, strict=True):
            assert set(worker.values) == of
