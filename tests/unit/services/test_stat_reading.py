"""The owner reads its queues: nothing twice, nothing lost, whatever Redis and the lease do."""

from __future__ import annotations

import pytest

from app.cluster.ring import BucketSet
from app.ports.store import BucketName, FencingToken, Holder
from app.protocols.stats import Stat, encode_stat
from app.services.forwarder import INBOX, Forwarder
from app.services.forwarding_processors import LeaseWatch, lease_based_processor
from app.services.stat_reading import StatReading
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.fakes.stat_queues import MemoryStats

BUCKETS = BucketSet(1)
(BUCKET,) = map(BucketName, BUCKETS.names)


def a_stat(timestamp: int, key: str = "a/vm") -> Stat:
    return Stat(key, 0.5, 0.5, 2.0, 1.0, timestamp)


class Owner:
    """A worker with its forwarder and its way of reading."""

    def __init__(self, queue: MemoryStats, jobs: VirtualConcurrency, clock: FakeClock, name: str) -> None:
        self.accepted: list[int] = []
        self.is_failing = False
        self.forwarder = Forwarder(
            BUCKETS, clock=clock, concurrency=jobs, holder=Holder(f"{name}_10.0.0.1", name)
        )
        self.watch: LeaseWatch = lease_based_processor(self.forwarder, self._accept)
        self.reading = StatReading(self.forwarder, queue, jobs)

    def _accept(self, stat: Stat) -> None:
        if self.is_failing:
            raise OSError("no answer")
        self.accepted.append(stat.timestamp)

    def begin(self, token: int) -> None:
        self.reading.begin(BUCKET, FencingToken(token), lambda: self.watch.acquired(BUCKET))

    def end(self) -> None:
        self.reading.end(BUCKET)
        self.watch.lost(BUCKET)


class Fleet:
    def __init__(self) -> None:
        clock = FakeClock()
        self.jobs = VirtualConcurrency(clock)
        self.queue = MemoryStats()
        self.first = Owner(self.queue, self.jobs, clock, "worker1")
        self.second = Owner(self.queue, self.jobs, clock, "worker2")

    def put(self, *timestamps: int) -> None:
        for timestamp in timestamps:
            self.queue.put(BUCKET, encode_stat(a_stat(timestamp)))

    @property
    def waiting(self) -> int:
        return len(self.queue.lists[BUCKET])


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_what_waits_is_accepted_and_then_removed(fleet: Fleet) -> None:
    fleet.put(1, 2, 3)
    fleet.first.begin(1)
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1, 2, 3]
    assert fleet.waiting == 0
    fleet.put(4)
    fleet.first.reading.read(BUCKET)
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1, 2, 3, 4]
    assert fleet.waiting == 0
    assert fleet.jobs.alive == set()


def test_what_waits_stands_before_what_comes_in_here(fleet: Fleet) -> None:
    fleet.put(1, 2)
    fleet.first.begin(1)
    fleet.first.forwarder.process(a_stat(3))
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1, 2, 3]
    assert fleet.first.forwarder.counts.late == 0


def test_more_than_there_is_room_for_is_read_bit_by_bit(fleet: Fleet) -> None:
    total = 3 * INBOX
    fleet.put(*range(1, total + 1))
    fleet.first.begin(1)
    assert fleet.first.forwarder.room >= INBOX // 2
    fleet.jobs.advance(10)
    assert fleet.first.accepted == list(range(1, total + 1))
    assert fleet.waiting == 0


def test_a_redis_that_is_away_loses_and_doubles_nothing(fleet: Fleet) -> None:
    fleet.put(1, 2)
    fleet.queue.is_away = True
    fleet.first.begin(1)
    fleet.jobs.advance(0.1)
    fleet.queue.is_away = False
    fleet.first.reading.read(BUCKET)
    fleet.queue.forgets_answers = True
    fleet.jobs.advance(0.1)
    fleet.queue.lists[BUCKET].append(encode_stat(a_stat(3)))
    fleet.first.reading.read(BUCKET)
    fleet.queue.forgets_answers = False
    fleet.first.reading.read(BUCKET)
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1, 2, 3]
    assert fleet.waiting == 0
    assert fleet.first.forwarder.counts.late == 0


def test_what_has_no_fate_at_a_hand_over_is_the_next_owners(fleet: Fleet) -> None:
    fleet.put(1, 2)
    fleet.first.is_failing = True
    fleet.first.begin(1)
    fleet.jobs.advance(1.2)
    fleet.first.end()
    fleet.queue.fences[BUCKET] = 2
    fleet.second.begin(2)
    fleet.first.is_failing = False
    fleet.jobs.advance(2)
    assert fleet.first.accepted == []
    assert fleet.second.accepted == [1, 2]
    assert fleet.first.forwarder.counts.returned == 2
    assert fleet.first.forwarder.in_hand == 0
    assert fleet.waiting == 0


def test_the_same_owner_under_a_new_lease_accepts_nothing_twice(fleet: Fleet) -> None:
    fleet.put(1, 2)
    fleet.first.is_failing = True
    fleet.first.begin(1)
    fleet.jobs.advance(0.7)
    fleet.first.end()
    fleet.first.begin(2)
    fleet.first.is_failing = False
    fleet.jobs.advance(2)
    assert fleet.first.accepted == [1, 2]
    assert fleet.first.forwarder.counts.late == 0
    assert fleet.waiting == 0


def test_an_owner_that_was_fenced_out_reads_no_more(fleet: Fleet) -> None:
    fleet.put(1)
    fleet.first.begin(1)
    fleet.queue.fences[BUCKET] = 2
    fleet.jobs.advance(0.1)
    reads = fleet.queue.reads
    fleet.first.reading.read(BUCKET)
    assert fleet.queue.reads == reads
    assert fleet.waiting == 1


def test_what_was_given_back_is_handed_over_again_while_we_are_the_owner(fleet: Fleet) -> None:
    fleet.put(1)
    fleet.first.begin(1)
    fleet.first.watch.lost(BUCKET)
    fleet.jobs.advance(0.01)
    assert fleet.first.accepted == []
    fleet.first.watch.acquired(BUCKET)
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1]
    assert fleet.waiting == 0


def test_an_entry_that_is_no_stat_is_removed_and_counted(fleet: Fleet) -> None:
    fleet.queue.put(BUCKET, b"{}")
    fleet.put(1)
    fleet.first.begin(1)
    fleet.jobs.advance(0.1)
    assert fleet.first.accepted == [1]
    assert fleet.first.reading.unreadable == 1
    assert fleet.waiting == 0
