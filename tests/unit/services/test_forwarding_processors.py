"""Whose stats are processed here: as leases or a stateful set's ordinals say."""

from __future__ import annotations

import logging

import pytest

from app.cluster.ring import BucketSet, bucket_name
from app.errors import ConfigurationError, OwnershipLost
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView
from app.services.forwarder import Forwarder
from app.services.forwarding_processors import (
    LeaseWatch,
    LocalProcessor,
    lease_based_processor,
    statefulset_based_processor,
)
from app.services.stat_fates import Fate
from tests.unit.services.test_forwarder import Stat

US = Holder("worker1_10.0.0.1", "agent-1")
OTHER = Holder("worker2_fe80::1", "agent-2")
FIRST, SECOND = bucket_name(0, 2), bucket_name(1, 2)


class Log:
    """A processor that notes its end."""

    is_local = True

    def __init__(self, ended: list[str], name: str) -> None:
        self._ended = ended
        self._name = name

    def process(self, stat: object) -> Fate:
        return Fate.ACCEPTED

    def shut_down(self) -> None:
        self._ended.append(self._name)


@pytest.fixture
def forwarder() -> Forwarder:
    return Forwarder(BucketSet(2), holder=US)


@pytest.fixture
def watch(forwarder: Forwarder) -> LeaseWatch:
    return lease_based_processor(forwarder, lambda stat: None)


def a_view(**holders: Holder | None) -> LeaseView:
    names = {"first": FIRST, "second": SECOND}
    rows = {
        BucketName(names[name]): LeaseRow(BucketName(names[name]), holder, FencingToken(1), 1000)
        for name, holder in holders.items()
    }
    return LeaseView(rows, (), frozenset(), 0)


def test_our_own_buckets_are_processed_here_and_no_others(forwarder: Forwarder, watch: LeaseWatch) -> None:
    watch.see(a_view(first=US, second=OTHER).leases.values())
    assert forwarder.is_bucket_owner(FIRST)
    assert not forwarder.is_bucket_owner(SECOND)
    assert not forwarder.is_bucket_owner("no bucket")


def test_a_restarted_worker_of_the_same_name_is_another_holder(
    forwarder: Forwarder, watch: LeaseWatch
) -> None:
    watch.updated(FIRST, Holder(US.identity, "agent-9"))
    assert not forwarder.is_bucket_owner(FIRST)


def test_the_same_holder_again_changes_nothing(forwarder: Forwarder, watch: LeaseWatch) -> None:
    watch.updated(FIRST, OTHER)
    ended: list[str] = []
    forwarder.set_processor(FIRST, Log(ended, "mine"))
    watch.updated(FIRST, OTHER)
    assert ended == []
    watch.updated(FIRST, US)
    assert ended == ["mine"]


def test_the_old_processor_is_shut_down_before_the_new_one_is_there(forwarder: Forwarder) -> None:
    seen: list[bool] = []

    class Watching(Log):
        def shut_down(self) -> None:
            seen.append(forwarder.is_bucket_owner(FIRST))

    forwarder.set_processor(FIRST, Watching([], "old"))
    forwarder.set_processor(FIRST, LocalProcessor(FIRST, lambda stat: None))
    assert seen == [False]
    assert forwarder.is_bucket_owner(FIRST)


@pytest.mark.parametrize(
    ("bucket", "holder", "said"),
    [
        ("leader-election", OTHER, True),
        (bucket_name(0, 3), OTHER, True),
        (FIRST, None, False),
        (FIRST, Holder("", "agent-2"), False),
        (FIRST, Holder("worker2", "agent-2"), True),
        (FIRST, Holder("worker2_nowhere", "agent-2"), True),
    ],
)
def test_leases_that_say_nothing_are_ignored_and_said_once(
    bucket: str, holder: Holder | None, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    forwarder = Forwarder(BucketSet(2), holder=US)
    watch = lease_based_processor(forwarder, lambda stat: None)
    watch.acquired(FIRST)
    with caplog.at_level(logging.DEBUG):
        watch.updated(bucket, holder)
        watch.updated(bucket, holder)
    assert forwarder.is_bucket_owner(FIRST)
    assert [record.levelno >= logging.WARNING for record in caplog.records] == [said]


def test_a_deleted_lease_removes_the_processor(forwarder: Forwarder, watch: LeaseWatch) -> None:
    watch.see(a_view(first=US, second=US).leases.values())
    watch.see(a_view(second=US).leases.values())
    assert not forwarder.is_bucket_owner(FIRST)
    assert forwarder.is_bucket_owner(SECOND)
    watch.see(a_view(first=US, second=US).leases.values())
    assert forwarder.is_bucket_owner(FIRST)


def test_a_lost_lease_is_not_ours_again_because_an_old_look_says_so(
    forwarder: Forwarder, watch: LeaseWatch
) -> None:
    watch.acquired(FIRST)
    watch.lost(FIRST)
    watch.updated(FIRST, US)
    assert not forwarder.is_bucket_owner(FIRST)
    watch.acquired(FIRST)
    assert forwarder.is_bucket_owner(FIRST)


def test_leases_are_looked_at_where_they_are_seen(forwarder: Forwarder) -> None:
    class Views:
        now: LeaseView | None = None

        def view(self) -> LeaseView | None:
            return self.now

    views = Views()
    watch = lease_based_processor(forwarder, lambda stat: None, leases=views)
    watch.look()
    assert not forwarder.is_bucket_owner(FIRST)
    views.now = a_view(first=US)
    watch.look()
    assert forwarder.is_bucket_owner(FIRST)


def test_a_processor_that_was_shut_down_accepts_no_more() -> None:
    accepted: list[Stat] = []
    processor = LocalProcessor(FIRST, accepted.append)
    assert processor.process(Stat("a/vm", 1)) is Fate.ACCEPTED
    processor.shut_down()
    with pytest.raises(OwnershipLost):
        processor.process(Stat("a/vm", 2))
    assert accepted == [Stat("a/vm", 1)]


@pytest.mark.parametrize(
    ("name", "ordinal", "own"),
    [("autoscaler-1", None, SECOND), ("autoscaler-7", 0, FIRST), ("a-1-0", None, FIRST)],
)
def test_the_ordinal_says_which_bucket_is_ours(
    forwarder: Forwarder, name: str, ordinal: int | None, own: str
) -> None:
    fenced: list[str] = []
    found = statefulset_based_processor(
        forwarder, lambda stat: None, name=name, ordinal=ordinal, raise_fence=fenced.append
    )
    assert found == own
    assert fenced == [own]
    assert [forwarder.is_bucket_owner(bucket) for bucket in (FIRST, SECOND)] == [own == FIRST, own == SECOND]


def test_the_ordinal_may_stand_in_the_holders_name() -> None:
    forwarder = Forwarder(BucketSet(2), holder=Holder("autoscaler-1_10.0.0.1", "agent-1"))
    assert statefulset_based_processor(forwarder, lambda stat: None) == SECOND


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("autoscaler-2", None), ("autoscaler", None), ("a-1x", None), ("a-0", 2), ("a-0", -1)],
)
def test_an_ordinal_out_of_range_or_none_is_a_mistake_of_the_configuration(
    forwarder: Forwarder, name: str, ordinal: int | None
) -> None:
    with pytest.raises(ConfigurationError, match="ordinal"):
        statefulset_based_processor(forwarder, lambda stat: None, name=name, ordinal=ordinal)
    assert not forwarder.is_bucket_owner(FIRST)
