"""Workers that own buckets, for tests of the ownership service: they note what they are told."""

from __future__ import annotations

from collections.abc import Callable

from app.cluster.lease import LeaseTimes
from app.cluster.ring import BucketSet
from app.errors import OwnershipLost
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, Holder, LeaseStore
from app.services.ownership import Ownership


class Owner:
    """An `Ownership` and its callbacks' notes.

    Attributes:
        begun: token by bucket, of buckets begun and neither lost nor handed over since.
        notes: (what, bucket) in order: acquired, lost, releasing.
        while_releasing: called at the start of each hand-over.
        while_acquiring: called at the start of each `on_acquired`; may raise.
    """

    def __init__(self, name: str, store: LeaseStore, clock: Clock, total: int, times: LeaseTimes) -> None:
        self.begun: dict[BucketName, FencingToken] = {}
        self.notes: list[tuple[str, BucketName]] = []
        self.while_releasing: Callable[[BucketName], None] = lambda bucket: None
        self.while_acquiring: Callable[[BucketName], None] = lambda bucket: None
        self.holder = Holder(f"{name}_10.0.0.1", name)
        self.ownership = Ownership(
            store,
            clock,
            BucketSet(total),
            self.holder,
            times,
            on_acquired=self._acquired,
            on_lost=self._lost,
            on_releasing=self._release,
        )

    def round(self) -> None:
        """A step and what follows from it."""
        self.ownership.step()
        self.ownership.settle()

    def may_work_on(self, bucket: BucketName) -> bool:
        """Whether an effect may be begun now."""
        try:
            self.ownership.guard(bucket).check()
        except OwnershipLost:
            return False
        return True

    def _acquired(self, bucket: BucketName, token: FencingToken) -> None:
        self.notes.append(("acquired", bucket))
        self.while_acquiring(bucket)
        self.begun[bucket] = token

    def _lost(self, bucket: BucketName) -> None:
        self.notes.append(("lost", bucket))
        self.begun.pop(bucket, None)

    def _release(self, bucket: BucketName) -> None:
        self.notes.append(("releasing", bucket))
        self.while_releasing(bucket)
        self.begun.pop(bucket, None)
