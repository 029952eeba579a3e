"""Which buckets this worker owns: leases taken, renewed, handed over, given up (`spec/forwarder.md`).

What must be true: a guard says yes only while the lease can't have ended, by the monotonic clock counted from
before its last renewal was sent, whatever Redis does meanwhile. Whatever `on_acquired` has begun ends with
`on_releasing` or, where the lease has gone first, with `on_lost`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from app.cluster.lease import Lease, LeaseTimes
from app.cluster.ring import BucketSet
from app.errors import LeasesUnavailable, StoreUnavailable, VmscalerError
from app.ports.own_metrics import LEASES_LOST, LEASES_TAKEN, TAKE_OVER
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseStore, LeaseView
from app.services.held_leases import HeldLeases, LeaseGuard
from app.services.taking import Taking

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
"""Free buckets are looked for at least so often."""

EXPIRE_EVERY_S = 0.1
"""How often leases that have run out are noticed while Redis is silent, and changes are settled."""


class Ownership:
    """The leases of one worker. Not for several threads; jobs of one `Concurrency` are fine.

    Args:
        on_acquired: begin the bucket; may wait, and raise VmscalerError: then it is let go again.
        on_lost: stop at once, write nothing; must not wait. May come for a bucket that was not begun.
        on_releasing: finish what runs and save, under the lease that still holds; it is released after.

    Attributes:
        problem: why nothing is renewed or taken, for an operator; None while all is well.
    """

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        bucket_set: BucketSet,
        holder: Holder,
        times: LeaseTimes,
        *,
        on_acquired: Callable[[BucketName, FencingToken], None],
        on_lost: Callable[[BucketName], None],
        on_releasing: Callable[[BucketName], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._total = bucket_set.total
        self._holder = holder
        self._times = times
        self._on_acquired, self._on_lost, self._on_releasing = on_acquired, on_lost, on_releasing
        self._leases = HeldLeases(clock)
        self._begun: dict[BucketName, int] = {}
        self._to_begin: deque[Lease] = deque()
        self._releasing: set[BucketName] = set()
        self._handing_over: set[BucketName] = set()
        self._seen_token = 0
        self._last_renewal_sent = float("-inf")
        self._last_view: LeaseView | None = None
        self._taking = Taking(clock, bucket_set.total, holder.agent_id, times)
        self._is_leaving = False
        self.problem: str | None = None

    # --- what others ask ----------------------------------------------------------------------------------

    def held(self) -> frozenset[BucketName]:
        """Buckets whose work is ours now; those being handed over are not among them."""
        return frozenset(self._leases.all().keys() - self._releasing - set(self._leases.given_up()))

    def guard(self, bucket: BucketName) -> LeaseGuard:
        """The guard of a bucket that we hold; one that is being handed over may still be saved under it.

        Raises:
            OwnershipLost: we don't hold it.
        """
        return self._leases.guard(bucket)

    @property
    def total(self) -> int:
        """Buckets of the fleet."""
        return self._total

    def is_draining(self) -> bool:
        """Whether an operator wants everything handed over and nothing taken."""
        return self._last_view is not None and self._taking.is_draining(self._last_view)

    def view(self) -> LeaseView | None:
        """All leases as of the last successful round; None before the first."""
        return self._last_view

    # --- one round ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """One round: renew what is due, see everything, take free buckets up to the share, pick one to shed.

        One round trip, and another where something is taken. Never raises for a Redis that is away: leases
        then run out by themselves. Beginning and handing over is left to `settle`.

        Raises:
            ConfigurationError: the fleet has another number of buckets; nothing was taken.
        """
        self.expire_overdue()
        try:
            if self._is_leaving:
                self._renew_what_is_left()
            else:
                self._take_free(self._round())
        except StoreUnavailable as err:
            if self.problem is None:
                logger.warning("leases not renewed", extra={"reason": err.problem})
            who = err.peer if isinstance(err, LeasesUnavailable) else "Redis"
            self.problem = f"{who} gave no answer: {err.problem}"
            return
        if self.problem is not None:
            logger.info("leases are renewed again")
        self.problem = None

    def expire_overdue(self) -> None:
        """Let go of leases that ran out, by the monotonic clock alone; also while `step` waits for Redis."""
        for bucket in self._leases.given_up():
            self._let_go(bucket, "no successful renewal in time", "not_renewed")

    def drop(self, bucket: BucketName) -> None:
        """Someone newer has it, as a refused write has shown; nothing happens if it isn't held."""
        self._let_go(bucket, "a newer owner was seen", "newer_owner")

    def settle(self) -> None:
        """Begin what was taken, hand over what is surplus, one after the other; waits for the callbacks.

        Raises:
            StoreUnavailable: a lease that was handed over is not released yet; a later round does it.
        """
        while self._to_begin:
            self._begin(self._to_begin.popleft())
        for bucket in sorted(self._releasing):
            self._hand_over(bucket)

    def release_all(self) -> None:
        """Hand over everything at shutdown and leave the fair share; the second time does nothing.

        Raises:
            StoreUnavailable: the leases will expire by themselves.
        """
        if self._is_leaving:
            return
        self._is_leaving = True
        mine = sorted(self._leases.all().keys() - self._releasing)
        self._releasing.update(mine)
        # Leaving comes first, so that the others' share allows them to take what is released.
        steps: list[Callable[[], None]] = [partial(self._store.leave, self._holder)]
        steps += [partial(self._hand_over, bucket) for bucket in mine]
        problem: StoreUnavailable | None = None
        for step in steps:
            try:
                step()
            except StoreUnavailable as err:
                problem = err
        if problem is not None:
            raise problem

    def run(self, stop: Signal, concurrency: Concurrency) -> None:
        """Rounds until stopped; while leaving, until nothing is held.

        Beginning, handing over and expiry have jobs of their own, so that neither slow callbacks nor a silent
        Redis stop the others. A wrong number of buckets is logged, shown as `problem`, and tried again.
        """
        done = concurrency.signal()

        def repeat(action: Callable[[], None], every_s: float) -> None:
            while not done.is_set():
                self._attempt(action)
                done.wait(every_s)

        pace_s = min(LOOK_EVERY_S, self._times.renew_every_s)
        jobs = [
            concurrency.spawn("lease rounds", lambda: repeat(self.step, pace_s)),
            concurrency.spawn("lease expiry", lambda: repeat(self.expire_overdue, EXPIRE_EVERY_S)),
            concurrency.spawn("lease changes", lambda: repeat(self.settle, EXPIRE_EVERY_S)),
        ]
        while not stop.wait(1.0):
            continue
        while self._is_leaving and len(self._leases):
            concurrency.sleep(EXPIRE_EVERY_S)
        done.set()
        for job in jobs:
            job.join(self._times.duration_s)

    # --- parts of a round ---------------------------------------------------------------------------------

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except VmscalerError as err:
            if self.problem != str(err):
                logger.error("leases stand still", extra={"reason": str(err)})
            self.problem = str(err)
        except Exception:
            logger.exception("ownership failed")

    def _round(self) -> LeaseView:
        sent = self._clock.monotonic()
        asked = self._leases.all() if self._is_renewal_due(sent) else {}
        view = self._store.round(
            self._holder, {bucket: FencingToken(lease.token) for bucket, lease in asked.items()}
        )
        if asked:
            self._last_renewal_sent = sent
        self._last_view = view
        self._seen_token = max([self._seen_token, *(row.token for row in view.leases.values())])
        for bucket, lease in asked.items():
            if self._leases.get(bucket) is not lease:
                continue  # let go while Redis was asked
            if bucket in view.renewed:
                self._leases.renew(lease, sent)
            elif bucket not in view.unanswered:
                self._let_go(bucket, "there is another holder, or the lease has expired", "other_holder")
        if self._is_leaving:
            # This round may have come after we left, if it was under way then: its heartbeat is taken back.
            self._store.leave(self._holder)
        return view

    def _renew_what_is_left(self) -> None:
        """While handing over at shutdown nothing is taken."""
        if len(self._leases) and self._is_renewal_due(self._clock.monotonic()):
            self._round()

    def _take_free(self, view: LeaseView) -> None:
        free = [bucket for bucket, row in view.leases.items() if self._is_free(row)]
        held = self._leases.all()
        tried = self._taking.to_take(view, free, len(held))
        if tried and not self._is_leaving:
            self._acquire([BucketName(bucket) for bucket in tried])
        elif not self._releasing:
            surplus = self._taking.to_hand_over(view, held)
            if surplus is not None:
                self._releasing.add(BucketName(surplus))
        # Ours in Redis, but not here: given up, or taken by an answer that never came.
        stray = {
            bucket: view.leases[bucket].token
            for bucket in free
            if bucket not in tried and view.leases[bucket].holder is not None
        }
        self._release(stray)

    def _is_free(self, row: LeaseRow) -> bool:
        is_ours = row.holder is not None and row.holder.agent_id == self._holder.agent_id
        return row.bucket not in self._leases and (row.holder is None or is_ours)

    def _is_renewal_due(self, now: float) -> bool:
        return now - self._last_renewal_sent >= self._times.renew_every_s

    def _acquire(self, buckets: list[BucketName]) -> None:
        sent = self._clock.monotonic()
        taken = self._store.acquire(self._holder, buckets, FencingToken(self._seen_token))
        if self._is_leaving:
            self._release(taken)
            self._store.leave(self._holder)  # as after a round that was under way
            return
        for bucket, token in taken.items():
            self._seen_token = max(self._seen_token, token)
            lease = Lease(bucket, token, sent, self._times)
            self._leases.add(lease)
            self._to_begin.append(lease)

    def _release(self, held: Mapping[BucketName, FencingToken]) -> None:
        if held:
            self._store.release(self._holder, held)

    # --- changes ------------------------------------------------------------------------------------------

    def _begin(self, lease: Lease) -> None:
        bucket, token = BucketName(lease.bucket), FencingToken(lease.token)
        asked = lease.counted_from  # before any renewal of it
        if not self._leases.has(bucket, token):
            return
        try:
            self._on_acquired(bucket, token)
        except Exception as err:
            self._forget(bucket, token)
            self._on_lost(bucket)
            if not isinstance(err, VmscalerError):
                raise
            logger.warning("bucket not begun", extra={"bucket": bucket, "reason": str(err)})
            return
        if self._leases.has(bucket, token):
            self._begun[bucket] = token
            LEASES_TAKEN.add()
            TAKE_OVER.observe(self._clock.monotonic() - asked)
        else:  # it went while it was begun
            self._on_lost(bucket)

    def _hand_over(self, bucket: BucketName) -> None:
        lease = self._leases.get(bucket)
        if lease is None or bucket in self._handing_over:
            return
        token = FencingToken(lease.token)
        self._handing_over.add(bucket)
        try:
            if self._begun.get(bucket) == token:
                self._on_releasing(bucket)
        finally:
            self._handing_over.discard(bucket)
            self._releasing.discard(bucket)
            if self._forget(bucket, token):
                logger.info("lease released", extra={"bucket": bucket, "token": token})
                self._taking.handed_over(bucket)
                self._release({bucket: token})

    def _let_go(self, bucket: BucketName, reason: str, kind: str) -> None:
        lease = self._leases.remove(bucket)
        if lease is None:
            return
        self._releasing.discard(bucket)
        LEASES_LOST.add(kind)
        logger.warning("lease lost", extra={"bucket": bucket, "token": lease.token, "reason": reason})
        if self._begun.pop(bucket, None) == lease.token:
            self._on_lost(bucket)

    def _forget(self, bucket: BucketName, token: FencingToken) -> bool:
        """Take a lease off our books without a word to the callbacks; whether it was on them."""
        if not self._leases.has(bucket, token):
            return False
        self._leases.remove(bucket)
        self._begun.pop(bucket, None)
        return True
