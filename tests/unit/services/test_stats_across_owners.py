"""A worker's stats as a whole: from its intake to the owner's queue, from the queue in, bells, journal."""

from __future__ import annotations

from typing import Any

import pytest

from app.cluster.ring import BucketSet
from app.errors import OwnershipLost, StoreUnavailable
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView
from app.protocols.stats import Stat
from app.services.stat_fates import Fate
from app.services.stats import Stats
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.fakes.stat_queues import MemoryStats

BUCKETS = BucketSet(1)
(BUCKET,) = map(BucketName, BUCKETS.names)


class Bell:
    def __init__(self) -> None:
        self.rung: list[BucketName] = []
        self.is_away = False

    def ring(self, bucket: BucketName) -> None:
        if self.is_away:
            raise StoreUnavailable("broker", "no answer")
        self.rung.append(bucket)


class Journal:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, **facts: object) -> None:
        self.lines.append(facts)


class Leases:
    """What each worker sees of the one lease, and its guard."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        self.token = FencingToken(0)

    def view(self) -> LeaseView:
        row = LeaseRow(BUCKET, self.holder, self.token, 1000)
        return LeaseView({BUCKET: row}, (), frozenset(), 0)


class Guard:
    def __init__(self, token: FencingToken) -> None:
        self.token = token

    def limit_s(self, setting_s: float) -> float:
        return setting_s

    def check(self) -> None:
        """It holds."""


class Guards:
    """One worker's: holds while the lease is its own."""

    def __init__(self, leases: Leases, holder: Holder) -> None:
        self._leases, self._holder = leases, holder

    def guard(self, bucket: BucketName) -> Guard:
        if self._leases.holder != self._holder:
            raise OwnershipLost(bucket, "is not held here")
        return Guard(self._leases.token)


class Fleet:
    """Two workers, one bucket, one queue."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.jobs = VirtualConcurrency(self.clock)
        self.queue = MemoryStats()
        self.bell = Bell()
        self.journal = Journal()
        self.leases = Leases()
        self.accepted: list[tuple[str, int]] = []
        self.first, self.second = self._worker("worker1"), self._worker("worker2")

    def _worker(self, name: str) -> Stats:
        holder = Holder(f"{name}_10.0.0.1", name)
        stats = Stats(BUCKETS, self.clock, self.jobs, holder, self.queue, self.bell, self.journal)

        def accept(stat: Stat) -> Fate:
            token = Guards(self.leases, holder).guard(BUCKET).token
            self.accepted.append((name, stat.timestamp))
            stats.accepted(stat, token)
            return Fate.ACCEPTED

        stats.connect(accept, self.leases, Guards(self.leases, holder), None)
        stop = self.jobs.signal()
        self.jobs.spawn(f"watch {name}", lambda: stats.run(stop))
        return stats

    def give(self, stats: Stats, before: Stats | None = None) -> None:
        if before is not None:
            before.lost(BUCKET)
        self.leases.holder = stats.forwarder.holder
        self.leases.token = FencingToken(self.leases.token + 1)
        self.queue.fences[BUCKET] = self.leases.token
        stats.acquired(BUCKET, self.leases.token)
        self.jobs.advance(0.5)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def a_stat(timestamp: int) -> Stat:
    return Stat("a/vm", 0.5, 0.5, 2.0, 1.0, timestamp)


def test_a_stat_for_another_worker_waits_in_its_queue_and_rings(fleet: Fleet) -> None:
    fleet.give(fleet.second)
    assert fleet.first.take([a_stat(1), a_stat(2)])
    fleet.jobs.advance(0.1)
    assert len(fleet.queue.lists[BUCKET]) == 2
    assert fleet.bell.rung == [BUCKET]
    fleet.second.read(BUCKET)
    fleet.jobs.advance(0.1)
    assert fleet.accepted == [("worker2", 1), ("worker2", 2)]
    assert fleet.queue.lists[BUCKET] == []


def test_the_bell_rings_again_when_the_first_may_have_been_lost(fleet: Fleet) -> None:
    fleet.give(fleet.second)
    for timestamp in range(1, 4):
        fleet.first.take([a_stat(timestamp)])
        fleet.jobs.advance(0.6)
    assert len(fleet.bell.rung) == 2


def test_a_bell_that_cannot_be_rung_loses_nothing(fleet: Fleet) -> None:
    fleet.give(fleet.second)
    fleet.bell.is_away = True
    fleet.first.take([a_stat(1)])
    fleet.jobs.advance(0.1)
    fleet.second.read(BUCKET)  # as at each tick
    fleet.jobs.advance(0.1)
    assert fleet.accepted == [("worker2", 1)]
    assert fleet.first.counters()["stats_forwarded"] == 1


def test_a_hand_over_and_a_clean_end_in_the_middle_lose_none(fleet: Fleet) -> None:
    fleet.give(fleet.first)
    fleet.first.take([a_stat(1)])
    fleet.jobs.advance(0.1)
    fleet.first.lost(BUCKET)
    fleet.leases.holder = None
    fleet.first.take([a_stat(2)])
    fleet.jobs.advance(1.0)  # nobody owns it: it is tried again
    fleet.first.stop()
    assert len(fleet.queue.lists[BUCKET]) == 1
    fleet.give(fleet.second)
    assert fleet.accepted == [("worker1", 1), ("worker2", 2)]
    assert not fleet.first.take([a_stat(3)])


def test_the_journal_tells_each_step_with_its_token(fleet: Fleet) -> None:
    fleet.give(fleet.second)
    fleet.first.take([a_stat(5)])
    fleet.jobs.advance(0.1)
    fleet.second.read(BUCKET)
    fleet.jobs.advance(0.1)
    fleet.second.take([a_stat(4)])
    fleet.jobs.advance(0.1)
    told = [
        (line["fate"], line["agent_id"], line["token"], line["timestamp"]) for line in fleet.journal.lines
    ]
    assert told == [
        ("taken", "worker1", None, 5),
        ("forwarded", "worker1", None, 5),
        ("accepted", "worker2", 1, 5),
        ("taken", "worker2", None, 4),
        ("late", "worker2", 1, 4),
    ]
    assert {line["key"] for line in fleet.journal.lines} == {"a/vm"}


def test_the_counters_add_up(fleet: Fleet) -> None:
    fleet.give(fleet.second)
    fleet.first.take([a_stat(1), a_stat(2)])
    fleet.jobs.advance(0.1)
    fleet.give(fleet.first, before=fleet.second)
    fleet.first.take([a_stat(2), a_stat(3)])
    fleet.jobs.advance(1.0)
    for stats in (fleet.first, fleet.second):
        counted = stats.counters()
        ended = ("accepted", "forwarded", "late", "dropped", "returned", "in_hand")
        assert counted["stats_taken"] + counted["stats_received"] == sum(
            counted[f"stats_{name}"] for name in ended
        )
    assert fleet.accepted == [("worker1", 1), ("worker1", 2), ("worker1", 3)]
    assert fleet.first.counters()["stats_late"] == 1


def test_nothing_is_said_while_all_clocks_agree(fleet: Fleet) -> None:
    assert fleet.first.problems() == []
