"""Bills the VMs of the buckets that this worker holds (`spec/agent.md`, "Billing").

Each `collect_every_s` the CPUs of each VM are noted, each `accumulate_every_s` windows end and their events
go into the outboxes, in the same fenced step; another job for each sink empties its outboxes. What the
platform told before its last answer is nobody's present: without a new answer nothing is noted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import OwnershipLost, StoreUnavailable
from app.metering.meter import MeterId
from app.ports.billing import BillingStore
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.stats import StatJournal
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VirtualMachine, VmKey
from app.services.bucket_meters import BucketMeters, MeterRules, Moment, Seen
from app.services.inventory import Inventory
from app.services.outbox_pushing import OutboxPushing
from app.services.usage_events import UsageEvents

logger = logging.getLogger(__name__)

VMS_A_TURN = 500
"""VMs that are looked through between two switches to other jobs; a VM costs some µs."""


@dataclass(frozen=True, slots=True)
class BillingTimes:
    """How often CPUs are noted, and how often windows end."""

    collect_every_s: float
    accumulate_every_s: float


class Billing:
    """A worker's billing.

    Args:
        bucket_of: which bucket a VM belongs to; asked once for each.
        pushing: one for each sink.
        journal: gets a line for each slice before it is written, for tests.
    """

    def __init__(
        self,
        times: BillingTimes,
        rules: MeterRules,
        runtime: tuple[Clock, Concurrency],
        store: BillingStore,
        events: UsageEvents,
        pushing: tuple[OutboxPushing, ...],
        journal: StatJournal | None = None,
    ) -> None:
        self._times = times
        self._rules = rules
        self._clock, self._concurrency = runtime
        self._store = store
        self._events = events
        self._pushing = pushing
        self._journal = journal
        self._held: dict[BucketName, BucketMeters] = {}
        self._buckets: dict[VmKey, BucketName] = {}
        self._inventory: Inventory | None = None
        self._bucket_of: Callable[[VmKey], BucketName] = lambda key: BucketName("")
        self._answers = 0
        self._next_accumulation = float("-inf")
        self._dropped = 0
        self._store_problem = ""

    def connect(self, inventory: Inventory, bucket_of: Callable[[VmKey], BucketName]) -> None:
        """Name what tells of the VMs; called once, before anything runs."""
        self._inventory = inventory
        self._bucket_of = bucket_of

    # --- what the agent calls -----------------------------------------------------------------------------

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """What runs until stopped, by name."""
        pushes = {f"billing to {pushing.sink_name}": pushing.run for pushing in self._pushing}
        return {"billing": self.run, **pushes}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Our bucket from now on; its meters are read at the next turn."""
        self._held[bucket] = BucketMeters(bucket, token, self._store, self._rules, self._journal)
        for pushing in self._pushing:
            pushing.acquired(bucket, token)

    def lost(self, bucket: BucketName) -> None:
        """No longer ours, or about to be handed over; what was noted is in Redis."""
        held = self._held.pop(bucket, None)
        if held is not None:
            self._dropped += held.dropped
        for pushing in self._pushing:
            pushing.lost(bucket)

    def counters(self) -> dict[str, int]:
        """For the registry."""
        dropped = self._dropped + sum(held.dropped for held in self._held.values())
        counts = {"billing_dropped": dropped}
        for pushing in self._pushing:
            waiting = sum(held.waiting.get(pushing.sink_name, 0) for held in self._held.values())
            counts[f"billing_{pushing.sink_name}_waiting"] = waiting
            counts[f"billing_{pushing.sink_name}_sent"] = pushing.sent
            counts[f"billing_{pushing.sink_name}_failed"] = pushing.failures
        return counts

    def problems(self) -> list[str]:
        """What an operator should know, a sentence each."""
        found = [pushing.problem for pushing in self._pushing if pushing.problem]
        for pushing in self._pushing:
            full = [
                bucket
                for bucket, held in self._held.items()
                if held.waiting.get(pushing.sink_name, 0) >= self._rules.max_waiting
            ]
            if full:
                found.append(
                    f"billing: the outbox for {pushing.sink_name} is full in {len(full)} buckets; "
                    f"usage is kept, in longer windows ({min(full)})"
                )
        alone = sorted(identity.key for held in self._held.values() for identity in held.left_alone)
        if alone:
            found.append(f"{len(alone)} VMs are not billed: a newer version wrote their meters ({alone[0]})")
        return found

    # --- collecting ---------------------------------------------------------------------------------------

    def run(self, stop: Signal) -> None:
        """Note and accumulate until stopped."""
        self._next_accumulation = self._clock.monotonic() + self._times.accumulate_every_s
        due: float = self._clock.monotonic()
        while not stop.wait(max(due - self._clock.monotonic(), 0.0)):
            self.collect()
            due = max(due + self._times.collect_every_s, self._clock.monotonic())

    def collect(self) -> None:
        """One turn: note, and end windows if that is due."""
        is_closing = self._clock.monotonic() >= self._next_accumulation
        if is_closing:
            self._next_accumulation = self._clock.monotonic() + self._times.accumulate_every_s
        seen = self._look()
        for bucket, held in list(self._held.items()):
            if self._held.get(bucket) is held:
                self._advance(bucket, held, None if seen is None else seen.get(bucket), is_closing)

    def _advance(self, bucket: BucketName, held: BucketMeters, seen: Seen | None, is_closing: bool) -> None:
        try:
            held.settle()
            if self._held.get(bucket) is not held:
                return
            wall_ms, mono_ms = self._clock.wall_ms(), round(self._clock.monotonic() * 1000)
            held.advance(Moment(wall_ms, mono_ms), seen, self._events if is_closing else None)
        except OwnershipLost as err:
            logger.info("bucket not billed here any more", extra={"bucket": bucket, "reason": str(err)})
            if self._held.get(bucket) is held:
                self.lost(bucket)
        except StoreUnavailable as err:
            self._say(err.problem)
        else:
            self._say("")

    def _look(self) -> dict[BucketName, Seen] | None:
        """What the platform has told since the last look, by held bucket; None: nothing new."""
        inventory = self._inventory
        if inventory is None or not inventory.is_ready or inventory.answers == self._answers:
            return None
        self._answers = inventory.answers
        unreadable = frozenset(inventory.unreadable)
        cpus: dict[BucketName, dict[MeterId, int | None]] = {bucket: {} for bucket in self._held}
        for count, vm in enumerate(list(inventory.vms.values()), start=1):
            if count % VMS_A_TURN == 0:
                self._concurrency.sleep(0)
            of_bucket = cpus.get(self._bucket(vm.key)) if vm.endpoint_id is not None else None
            if of_bucket is not None and vm.key not in unreadable:
                of_bucket[_identity(vm)] = None if vm.observed is None else vm.observed.cpu
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if key in inventory.vms}
        return {bucket: Seen(of, unreadable) for bucket, of in cpus.items()}

    def _bucket(self, key: VmKey) -> BucketName:
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = self._bucket_of(key)
        return found

    def _say(self, problem: str) -> None:
        if problem != self._store_problem:
            self._store_problem = problem
            if problem:
                logger.warning("billing waits for Redis", extra={"reason": problem[:200]})
            else:
                logger.info("billing goes on")


def _identity(vm: VirtualMachine) -> MeterId:
    return MeterId(vm.key, vm.uid, vm.endpoint_id or "")
