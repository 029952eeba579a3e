"""What every `BillingStore` does: steps once, in order, fenced; events leave an outbox once."""

from __future__ import annotations

import pytest

from app.adapters.redis_billing import RedisBilling
from app.adapters.redis_state import RedisState
from app.errors import OwnershipLost
from app.ports.billing import BillingStep, BillingStore, StoredMeters, Waiting
from app.ports.store import BucketName, FencingToken
from tests.contract.conftest import Backend
from tests.fakes.billing import MemoryBilling

BUCKET = BucketName("autoscaler-bucket-00-of-01")
TOKEN = FencingToken(5)
SINKS = ("http", "s3")
FIELD = '["default/db","uid-1","ep-1"]'


class Subject:
    """A store, and a way to raise a bucket's fence."""

    def __init__(self, backend: Backend) -> None:
        self.store: BillingStore
        if backend.connection is None:
            memory = MemoryBilling()
            self.store, self.raise_fence = memory, memory.raise_fence
        else:
            self.store = RedisBilling(backend.connection, backend.keys)
            self.raise_fence = RedisState(backend.connection, backend.keys).raise_fence


@pytest.fixture
def subject(backend: Backend) -> Subject:
    return Subject(backend)


def a_step(number: int = 1, **changes: object) -> BillingStep:
    facts = {"meters": {FIELD: b"m%d" % number}, "events": {"http": [b"a", b"b"], "s3": [b"c"]}}
    return BillingStep(number, **(facts | changes))  # type: ignore[arg-type]


def test_a_step_writes_meters_and_events_and_tells_how_many_wait(subject: Subject) -> None:
    assert subject.store.load(BUCKET, SINKS) == StoredMeters(0, {}, {"http": 0, "s3": 0})
    assert subject.store.commit(BUCKET, TOKEN, a_step(), SINKS) == {"http": 2, "s3": 1}
    assert subject.store.load(BUCKET, SINKS) == StoredMeters(1, {FIELD: b"m1"}, {"http": 2, "s3": 1})
    assert subject.store.waiting(BUCKET, "http", 10) == Waiting(0, (b"a", b"b"))
    assert subject.store.length(BUCKET, "s3") == (0, 1)


def test_a_step_that_is_said_again_is_done_once(subject: Subject) -> None:
    subject.store.commit(BUCKET, TOKEN, a_step(), SINKS)
    assert subject.store.commit(BUCKET, TOKEN, a_step(), SINKS) == {"http": 2, "s3": 1}
    assert subject.store.load(BUCKET, SINKS).step == 1
    assert subject.store.commit(BUCKET, TOKEN, a_step(2), SINKS) == {"http": 4, "s3": 2}
    assert subject.store.commit(BUCKET, TOKEN, a_step(), SINKS) == {"http": 4, "s3": 2}
    assert subject.store.load(BUCKET, SINKS).meters == {FIELD: b"m2"}


def test_a_step_without_the_one_before_it_is_not_done(subject: Subject) -> None:
    assert subject.store.commit(BUCKET, TOKEN, a_step(2), SINKS) is None
    assert subject.store.load(BUCKET, SINKS) == StoredMeters(0, {}, {"http": 0, "s3": 0})


def test_meters_of_a_step_can_go(subject: Subject) -> None:
    subject.store.commit(BUCKET, TOKEN, a_step(), SINKS)
    subject.store.commit(BUCKET, TOKEN, BillingStep(2, gone=[FIELD], events={"http": [b"z"]}), SINKS)
    assert subject.store.load(BUCKET, SINKS) == StoredMeters(2, {}, {"http": 3, "s3": 1})


def test_thousands_of_meters_and_events_go_in_one_step(subject: Subject) -> None:
    meters = {f'["default/vm-{n}","u","e"]': b"m" for n in range(1500)}
    events = [b"%d" % n for n in range(3000)]
    assert subject.store.commit(BUCKET, TOKEN, a_step(meters=meters, events={"http": events}), SINKS) == {
        "http": 3000,
        "s3": 0,
    }
    assert subject.store.waiting(BUCKET, "http", 5000).events == tuple(events)
    assert subject.store.load(BUCKET, SINKS).meters == meters


def test_an_older_token_writes_and_removes_nothing(subject: Subject) -> None:
    subject.store.commit(BUCKET, TOKEN, a_step(), SINKS)
    subject.raise_fence(BUCKET, FencingToken(6))
    with pytest.raises(OwnershipLost):
        subject.store.commit(BUCKET, TOKEN, a_step(2), SINKS)
    with pytest.raises(OwnershipLost):
        subject.store.remove(BUCKET, TOKEN, "http", sent=0, count=1)
    assert subject.store.load(BUCKET, SINKS) == StoredMeters(1, {FIELD: b"m1"}, {"http": 2, "s3": 1})
    subject.store.remove(BUCKET, FencingToken(6), "http", sent=0, count=1)
    assert subject.store.waiting(BUCKET, "http", 10) == Waiting(1, (b"b",))


def test_events_leave_an_outbox_once_and_no_other_loses_any(subject: Subject) -> None:
    subject.store.commit(BUCKET, TOKEN, a_step(), SINKS)
    for _ in range(2):
        subject.store.remove(BUCKET, TOKEN, "http", sent=0, count=1)
    assert subject.store.waiting(BUCKET, "http", 10) == Waiting(1, (b"b",))
    subject.store.remove(BUCKET, TOKEN, "http", sent=1, count=1)
    assert subject.store.length(BUCKET, "http") == (2, 0)
    assert subject.store.waiting(BUCKET, "s3", 10) == Waiting(0, (b"c",))


def test_no_more_events_are_read_than_asked_for(subject: Subject) -> None:
    subject.store.commit(BUCKET, TOKEN, a_step(), SINKS)
    assert subject.store.waiting(BUCKET, "http", 1).events == (b"a",)
