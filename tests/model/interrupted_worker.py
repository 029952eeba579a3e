"""One worker of the model: the real ownership service, and work on its buckets as the real services do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import greenlet

from app.cluster.lease import LeaseTimes
from app.cluster.ring import BucketSet
from app.errors import OwnershipLost, StoreUnavailable, VmscalerError
from app.ports.store import BucketName, FencingToken, Holder, LeaseView, VmWrite
from app.ports.vm import VmKey
from app.services.ownership import Ownership

if TYPE_CHECKING:
    from tests.model.interrupted_world import World

JOBS = {"expire": 1, "settle": 1, "step": 5, "work": 10}
"""What runs every so many steps of the model's time, each in a loop of its own."""

FINISH_S = 0.2
"""How long what runs takes to finish before a hand-over."""

EFFECT_S = 2.0
"""The setting of an effect's time limit."""


def scaled(times: LeaseTimes, scale: int) -> LeaseTimes:
    """The same, so many times as long."""
    return LeaseTimes(times.duration_s * scale, times.renew_every_s * scale, times.give_up_after_s * scale)


class Killed(BaseException):
    """The process is gone, in the middle of a call."""


class _Line:
    """The worker's connection to Redis: each call is one that the world may interrupt."""

    def __init__(self, world: World, worker: ModelWorker) -> None:
        self._world, self._worker = world, worker

    def check_total(self, total: int) -> None:
        self._world.call(self._worker, "check_total", lambda: self._world.redis.leases.check_total(total))

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        def apply() -> LeaseView:
            view = self._world.redis.leases.round(holder, renew)
            for bucket in view.renewed:
                self._world.note_seen(bucket, renew[bucket])
            return view

        return self._world.call(self._worker, "renew" if renew else "look", apply)

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        def apply() -> Mapping[BucketName, FencingToken]:
            taken = self._world.redis.leases.acquire(holder, buckets, seen)
            self._world.note_grants(dict(taken))
            return taken

        return self._world.call(self._worker, "acquire", apply)

    def release(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> None:
        self._world.call(self._worker, "release", lambda: self._world.redis.leases.release(holder, held))

    def leave(self, holder: Holder) -> None:
        self._world.call(self._worker, "leave", lambda: self._world.redis.leases.leave(holder))


class ModelWorker:
    """A process.

    Attributes:
        values: per bucket that it works on: the token and the state that it goes on from.
        running: the jobs that are under way now; `busy`: buckets on which one is at work.
    """

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.holder = Holder(f"{name}_10.0.0.1", name)
        self.values: dict[BucketName, tuple[FencingToken, int]] = {}
        self.running: set[str] = set()
        self.busy: set[BucketName] = set()
        self.is_dead = self.is_gone = self.is_leaving = False
        self.stopped_in: greenlet.greenlet | None = None
        self.cut_off_until = float("-inf")
        self._world = world
        self.ownership = Ownership(
            _Line(world, self),
            world.redis.clock,
            BucketSet(3),
            self.holder,
            scaled(world.times, world.scale),
            on_acquired=self._acquired,
            on_lost=lambda bucket: self.values.pop(bucket, None) and None,
            on_releasing=self._releasing,
        )

    @property
    def is_stopped(self) -> bool:
        """Whether the whole process stands still."""
        return self.stopped_in is not None

    @property
    def is_there(self) -> bool:
        """Whether it is alive, running, and not about to leave."""
        return not (self.is_dead or self.is_stopped or self.is_leaving)

    def may_work_on(self, bucket: BucketName) -> bool:
        """Whether an effect may be begun in this very moment, if the process ran."""
        try:
            self.ownership.guard(bucket).check()
        except OwnershipLost:
            return False
        return not self.is_dead

    def run_jobs(self, step: int) -> None:
        """What its loops do at this step of time."""
        jobs = {
            "expire": self.ownership.expire_overdue,
            "settle": self.ownership.settle,
            "step": self.ownership.step,
            "work": self._work,
        }
        for job, every in JOBS.items():
            if step % every == 0 and job not in self.running and not (self.is_dead or self.is_gone):
                self._run(job, jobs[job])

    def leave(self) -> None:
        """A clean shutdown."""

        def release() -> None:
            try:
                self.ownership.release_all()
            finally:
                self.is_gone = True

        self.is_leaving = True
        self._run("leave", release)

    def _run(self, job: str, action: Callable[[], None]) -> None:
        def run() -> None:
            try:
                action()
            except (VmscalerError, Killed):
                pass  # as the loops of `Ownership.run` and the tasks do
            self.running.discard(job)

        self.running.add(job)
        greenlet.greenlet(run).switch()

    # --- work -----------------------------------------------------------------------------------------------

    def _acquired(self, bucket: BucketName, token: FencingToken) -> None:
        states = self._world.redis.states

        def raise_fence() -> None:
            states.raise_fence(bucket, token)
            self._world.note_seen(bucket, token)

        self._world.call(self, "raise fence", raise_fence)
        records = self._world.call(self, "load", lambda: states.load(bucket))
        value = int(records.get(VmKey("ns/vm"), b"0"))
        if self.may_work_on(bucket):
            self._world.note_load(bucket, value)
        self.values[bucket] = (token, value)

    def _releasing(self, bucket: BucketName) -> None:
        self._world.sleep(self, FINISH_S)
        while bucket in self.busy:
            self._world.sleep(self, 0.1)
        try:
            self._commit(bucket)
        except (OwnershipLost, StoreUnavailable):
            pass  # as the supervisor does: logged, and released all the same
        self.values.pop(bucket, None)

    def _work(self) -> None:
        for bucket in sorted(self.ownership.held()):
            if bucket not in self.values:
                continue
            self.busy.add(bucket)
            try:
                self._commit(bucket)
                self._affect(bucket)
            except (OwnershipLost, StoreUnavailable):
                continue
            finally:
                self.busy.discard(bucket)

    def _commit(self, bucket: BucketName) -> None:
        if bucket not in self.values:
            raise OwnershipLost(bucket, "is not held here")
        token, value = self.values[bucket]
        self.values[bucket] = (token, value + 1)
        self.ownership.guard(bucket).check()
        losses = 0

        def apply() -> None:
            nonlocal losses
            write = VmWrite(VmKey("ns/vm"), b"%d" % (value + 1))
            self._world.redis.states.commit(bucket, token, [write])
            self._world.note_write(bucket, token, value + 1)
            losses = self._world.losses

        try:
            self._world.call(self, "commit", apply)
        except OwnershipLost:
            if self.ownership.guard(bucket).token == token:
                self.ownership.drop(bucket)
            raise
        self._world.note_ack(bucket, value + 1, losses)

    def _affect(self, bucket: BucketName) -> None:
        guard = self.ownership.guard(bucket)
        limit_s = guard.limit_s(EFFECT_S * self._world.scale)
        self._world.call(self, "effect", lambda: self._world.receive(bucket, guard.token), limit_s)
