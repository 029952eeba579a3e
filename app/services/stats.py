"""A worker's part in bringing stats to their VMs: forwarder, queues of the held buckets, counters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict

from app.cluster.ring import BucketSet
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.stats import StatBell, StatJournal, StatQueue
from app.ports.store import BucketName, FencingToken, Holder
from app.protocols.stats import Stat, encode_stat
from app.services.forwarder import Forwarder
from app.services.forwarding_processors import LeaseViews, lease_based_processor
from app.services.guarding import Guards
from app.services.stat_fates import Fate
from app.services.stat_intake import StatIntake
from app.services.stat_reading import StatReading

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
"""How often the leases' holders are looked at; ownership sees them every half second."""

RING_AGAIN_S = 1.0
"""A bell for a bucket whose queue was not empty is rung so often: an earlier one may have been lost."""


class Stats:
    """Takes stats, sends them to their owners, and accepts those of our own buckets.

    Attributes:
        intake: what judges pushed lists; None where this worker takes none.
    """

    def __init__(
        self,
        bucket_set: BucketSet,
        clock: Clock,
        concurrency: Concurrency,
        holder: Holder,
        queue: StatQueue,
        bell: StatBell,
        journal: StatJournal | None = None,
    ) -> None:
        self._clock = clock
        self._holder = holder
        self._queue = queue
        self._bell = bell
        self._journal = journal
        self._rung: dict[str, float] = {}
        self._bucket_set = bucket_set
        self._guards: Guards | None = None
        self.forwarder = Forwarder(
            bucket_set,
            clock=clock,
            concurrency=concurrency,
            holder=holder,
            send=self._send,
            noted=self._note_fate,
        )
        self._reading = StatReading(self.forwarder, queue, concurrency)
        self.intake: StatIntake | None = None

    def connect(
        self, accept: Callable[[Stat], Fate], leases: LeaseViews, guards: Guards, intake: StatIntake | None
    ) -> None:
        """Name the parts; called once, before anything runs."""
        self._watch = lease_based_processor(self.forwarder, accept, leases=leases)
        self._guards = guards
        self.intake = intake

    def run(self, stop: Signal) -> None:
        """Follow the leases' holders until stopped."""
        while not stop.wait(LOOK_EVERY_S):
            self._watch.look()

    # --- what the agent and tasks call --------------------------------------------------------------------

    def take(self, stats: Sequence[Stat]) -> bool:
        """All of these, or none where there is no room; does not wait."""
        if not self.forwarder.process_all(stats):
            return False
        for stat in stats:
            self._write("taken", stat, None)
        return True

    def read(self, bucket: BucketName) -> None:
        """Stats of one of our buckets may wait in its queue; nothing where it is another's."""
        self._reading.read(bucket)

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Our bucket from now on, its runners have begun."""
        self._reading.begin(bucket, token, lambda: self._watch.acquired(bucket))

    def lost(self, bucket: BucketName) -> None:
        """No longer ours; what waits stays in its queue."""
        self._reading.end(bucket)
        self._watch.lost(bucket)

    def stop(self) -> None:
        """Take no more, and put what is in hand into the buckets' queues; after the buckets were let go."""
        self.forwarder.cancel()

    def accepted(self, stat: Stat, token: FencingToken) -> None:
        """A stat is committed."""
        self._write("accepted", stat, token)

    def counters(self) -> dict[str, int]:
        """For the registry: taken + received = accepted + forwarded + late + dropped + returned + in_hand."""
        counts = {**asdict(self.forwarder.counts), "in_hand": self.forwarder.in_hand}
        counts["unreadable"] = self._reading.unreadable
        return {f"stats_{name}": count for name, count in counts.items()}

    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        skew = "" if self.intake is None else self.intake.skew.problem
        return [skew] if skew else []

    # --- what the forwarder calls -------------------------------------------------------------------------

    def _send(self, bucket: str, stat: Stat) -> None:
        name = BucketName(bucket)
        waiting = self._queue.put(name, encode_stat(stat))
        now = self._clock.monotonic()
        if waiting > 1 and now - self._rung.get(bucket, float("-inf")) < RING_AGAIN_S:
            return
        try:
            self._bell.ring(name)
            self._rung[bucket] = now
        except StoreUnavailable as err:
            # It waits where the owner looks at its next tick.
            logger.debug("owner not told of stats", extra={"bucket": bucket, "reason": err.problem})

    def _note_fate(self, stat: Stat, fate: Fate) -> None:
        if fate is Fate.LATE:
            self._write("late", stat, self._token_of(stat))
        elif fate in (Fate.FORWARDED, Fate.DROPPED):
            self._write(fate.value, stat, None)

    def _token_of(self, stat: Stat) -> FencingToken | None:
        try:
            bucket = BucketName(self._bucket_set.owner(stat.key))
            return None if self._guards is None else self._guards.guard(bucket).token
        except OwnershipLost:
            return None

    def _write(self, fate: str, stat: Stat, token: FencingToken | None) -> None:
        if self._journal is None:
            return
        self._journal.write(
            time=self._clock.wall_ms() / 1000,
            fate=fate,
            holder=self._holder.identity,
            agent_id=self._holder.agent_id,
            token=token,
            key=stat.key,
            timestamp=stat.timestamp,
        )
