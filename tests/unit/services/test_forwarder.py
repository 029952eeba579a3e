"""The forwarder in virtual time: every rule of its own."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

import pytest

from app.cluster.ring import BucketSet
from app.ports.store import BucketName, Holder
from app.services.forwarder import INBOX, MAX_RETRIES, Forwarder
from app.services.forwarding_processors import LeaseWatch, lease_based_processor
from app.services.stat_fates import Fate
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency

US = Holder("worker1_10.0.0.1", "agent-1")
OTHER = Holder("worker2_10.0.0.2", "agent-2")
BUCKETS = BucketSet(4)


@dataclass(frozen=True)
class Stat:
    key: str
    timestamp: int


class Setting:
    """A forwarder, its leases, and what has become of the stats."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.jobs = VirtualConcurrency(self.clock)
        self.accepted: list[Stat] = []
        self.sent: list[tuple[str, Stat]] = []
        self.fates: list[tuple[Stat, Fate]] = []
        self.failing: set[str] = set()
        self.forwarder = Forwarder(
            BUCKETS,
            clock=self.clock,
            concurrency=self.jobs,
            holder=US,
            send=self._send,
            noted=lambda stat, fate: self.fates.append((stat, fate)),
        )
        self.leases: LeaseWatch = lease_based_processor(self.forwarder, self._accept)

    def _accept(self, stat: Stat) -> None:
        if stat.key in self.failing:
            raise OSError("no answer")
        self.accepted.append(stat)

    def _send(self, bucket: str, stat: Stat) -> None:
        if bucket in self.failing:
            raise OSError("no broker")
        self.sent.append((bucket, stat))

    def own(self, key: str, holder: Holder = US) -> BucketName:
        bucket = BucketName(BUCKETS.owner(key))
        self.leases.updated(bucket, holder)
        return bucket

    def adds_up(self) -> bool:
        counts = self.forwarder.counts
        ended = counts.accepted + counts.forwarded + counts.late + counts.dropped + counts.returned
        return counts.taken + counts.received == ended + self.forwarder.in_hand


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_stat_of_our_own_bucket_is_accepted(setting: Setting) -> None:
    setting.own("a/vm")
    assert setting.forwarder.process(Stat("a/vm", 1))
    assert setting.accepted == []  # process does not wait for it
    setting.jobs.run()
    assert setting.accepted == [Stat("a/vm", 1)]
    assert setting.forwarder.counts.accepted == 1
    assert setting.adds_up()


def test_a_stat_of_another_bucket_is_sent_to_its_queue(setting: Setting) -> None:
    bucket = setting.own("a/vm", OTHER)
    setting.forwarder.process(Stat("a/vm", 1))
    setting.jobs.run()
    assert setting.sent == [(bucket, Stat("a/vm", 1))]
    assert setting.accepted == []
    assert not setting.forwarder.is_bucket_owner(bucket)


def test_a_stat_waits_until_somebody_owns_its_bucket(setting: Setting) -> None:
    setting.forwarder.process(Stat("a/vm", 1))
    setting.jobs.advance(3.2)
    setting.own("a/vm")
    setting.jobs.advance(0.2)
    assert setting.accepted == []
    setting.jobs.advance(0.2)
    assert setting.accepted == [Stat("a/vm", 1)]


def test_a_stat_is_dropped_after_30_retries_counted_and_logged_once(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.process(Stat("a/vm", 1))
    with caplog.at_level(logging.WARNING):
        setting.jobs.advance(MAX_RETRIES * 0.5 - 0.01)
        assert setting.forwarder.counts.dropped == 0
        setting.jobs.advance(0.02)
    assert setting.forwarder.counts.dropped == 1
    assert [record.message for record in caplog.records] == ["stat dropped"]
    assert setting.jobs.alive == set()
    assert setting.adds_up()


def test_a_stat_that_waits_holds_back_only_those_of_its_own_vm(setting: Setting) -> None:
    setting.own("a/vm")
    setting.own("b/vm")
    setting.failing.add("a/vm")
    for stat in (Stat("a/vm", 1), Stat("a/vm", 2), Stat("b/vm", 1)):
        setting.forwarder.process(stat)
    setting.jobs.advance(1)
    assert setting.accepted == [Stat("b/vm", 1)]
    setting.failing.clear()
    setting.jobs.advance(0.6)
    assert setting.accepted == [Stat("b/vm", 1), Stat("a/vm", 1), Stat("a/vm", 2)]


def test_one_that_is_not_newer_is_late(setting: Setting) -> None:
    setting.own("a/vm")
    for timestamp in (5, 5, 4, 6):
        setting.forwarder.process(Stat("a/vm", timestamp))
    setting.jobs.run()
    assert [stat.timestamp for stat in setting.accepted] == [5, 6]
    assert setting.forwarder.counts.late == 2
    assert setting.adds_up()


def test_one_that_was_never_accepted_makes_no_other_late(setting: Setting) -> None:
    setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.process(Stat("a/vm", 9))
    setting.jobs.advance(16)
    setting.failing.clear()
    setting.forwarder.process(Stat("a/vm", 8))
    setting.jobs.run()
    assert setting.accepted == [Stat("a/vm", 8)]


def test_a_full_inbox_says_no_at_once_and_takes_nothing_of_a_list(setting: Setting) -> None:
    for number in range(INBOX - 1):
        assert setting.forwarder.process(Stat(f"a/vm-{number}", 1))
    assert not setting.forwarder.process_all([Stat("b/vm", 1), Stat("b/vm", 2)])
    assert setting.forwarder.process(Stat("b/vm", 1))
    assert not setting.forwarder.process(Stat("b/vm", 2))
    setting.jobs.run()  # waiting and retrying count as well
    assert not setting.forwarder.process(Stat("b/vm", 2))
    assert setting.forwarder.counts.taken == setting.forwarder.in_hand == INBOX
    assert setting.forwarder.counts.refused == 4


def test_when_the_holder_changes_what_waits_goes_to_the_new_one(setting: Setting) -> None:
    bucket = setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.process(Stat("a/vm", 1))
    setting.jobs.advance(1)
    setting.own("a/vm", OTHER)
    setting.jobs.advance(0.6)
    assert setting.sent == [(bucket, Stat("a/vm", 1))]
    assert setting.forwarder.counts.forwarded == 1


def test_cancel_leaves_nothing_running_and_hands_on_what_is_left(setting: Setting) -> None:
    bucket = setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.process(Stat("a/vm", 1))
    setting.forwarder.process(Stat("a/vm", 2))
    setting.jobs.advance(1)
    setting.forwarder.cancel()
    assert setting.jobs.alive == set()
    assert setting.sent == [(bucket, Stat("a/vm", 1)), (bucket, Stat("a/vm", 2))]
    assert not setting.forwarder.process(Stat("a/vm", 3))
    assert not setting.forwarder.is_bucket_owner(bucket)
    setting.forwarder.cancel()
    assert setting.adds_up()
    assert setting.forwarder.in_hand == 0


def test_what_cannot_be_handed_on_at_the_end_is_counted_as_dropped(setting: Setting) -> None:
    bucket = BUCKETS.owner("a/vm")
    setting.failing.add(bucket)
    setting.forwarder.process(Stat("a/vm", 1))
    setting.jobs.run()
    setting.forwarder.cancel()
    assert setting.forwarder.counts.dropped == 1
    assert setting.fates == [(Stat("a/vm", 1), Fate.DROPPED)]


def test_a_queue_that_does_not_answer_holds_up_the_end_for_seconds_only(setting: Setting) -> None:
    def hang(bucket: str, stat: Stat) -> None:
        setting.clock.advance(2.0)
        raise OSError("no answer")

    setting.forwarder.send = hang
    for number in range(100):
        setting.forwarder.process(Stat(f"a/vm-{number}", 1))
    setting.jobs.run()
    begun = setting.clock.monotonic()
    setting.forwarder.cancel()
    assert setting.clock.monotonic() - begun < 10
    assert setting.forwarder.counts.dropped == 100


class Queue:
    """The queue that a stat was read from."""

    def __init__(self) -> None:
        self.current = True
        self.fates: list[Fate] = []

    def is_current(self) -> bool:
        return self.current

    def finish(self, fate: Fate) -> None:
        self.fates.append(fate)


def test_a_stat_from_the_queue_is_given_back_when_the_bucket_is_another_workers(setting: Setting) -> None:
    queue = Queue()
    setting.own("a/vm", OTHER)
    assert setting.forwarder.receive(Stat("a/vm", 1), queue)
    setting.jobs.run()
    assert queue.fates == [Fate.RETURNED]
    assert setting.sent == []
    assert setting.adds_up()


def test_a_stat_read_under_an_earlier_lease_is_given_back(setting: Setting) -> None:
    queue = Queue()
    setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.receive(Stat("a/vm", 1), queue)
    setting.jobs.run()
    queue.current = False
    setting.failing.clear()
    setting.jobs.advance(0.6)
    assert queue.fates == [Fate.RETURNED]
    assert setting.accepted == []


def test_a_stat_from_the_queue_stays_there_at_the_end(setting: Setting) -> None:
    queue = Queue()
    setting.own("a/vm")
    setting.failing.add("a/vm")
    setting.forwarder.receive(Stat("a/vm", 1), queue)
    setting.jobs.run()
    setting.forwarder.cancel()
    assert queue.fates == [Fate.RETURNED]
    assert setting.sent == []


def test_a_stat_whose_try_outlasts_the_end_has_a_fate_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.forwarder.CANCEL_S", 0.01)
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    fates: list[Fate] = []

    def noted(stat: Stat, fate: Fate) -> None:
        fates.append(fate)
        ended.set()

    def accept(stat: Stat) -> None:
        begun.set()
        goes_on.wait(60)
        raise OSError("no answer")

    forwarder = Forwarder(BUCKETS, holder=US, noted=noted)
    lease_based_processor(forwarder, accept).updated(BUCKETS.owner("a/vm"), US)
    assert forwarder.process(Stat("a/vm", 1))
    assert begun.wait(60)
    forwarder.cancel()
    assert forwarder.in_hand == 1
    goes_on.set()
    assert ended.wait(60)
    assert fates == [Fate.DROPPED]


def test_it_works_on_plain_threads_with_nothing_but_its_buckets() -> None:
    done = threading.Event()
    forwarder = Forwarder(BUCKETS, holder=US)
    accepted: list[Stat] = []

    def accept(stat: Stat) -> None:
        accepted.append(stat)
        if len(accepted) == 100:
            done.set()

    watch = lease_based_processor(forwarder, accept)
    for bucket in BUCKETS.names:
        watch.updated(bucket, US)
    for number in range(100):
        assert forwarder.process(Stat(f"a/vm-{number % 10}", number + 1))
    assert done.wait(60)
    forwarder.cancel()
    assert forwarder.counts.accepted == 100
    assert not [thread for thread in threading.enumerate() if "stats" in thread.name]
    for vm in range(10):
        times = [stat.timestamp for stat in accepted if stat.key == f"a/vm-{vm}"]
        assert times == sorted(times)
