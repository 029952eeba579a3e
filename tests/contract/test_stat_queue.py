"""What every `StatQueue` does: keep stats in order until their owner, and no earlier one, takes them away."""

from __future__ import annotations

import pytest

from app.adapters.redis_state import RedisState
from app.adapters.redis_stats import RedisStats
from app.errors import OwnershipLost, PeerRefused
from app.ports.store import BucketName, FencingToken
from tests.contract.conftest import Backend
from tests.fakes.stat_queues import MemoryStats

BUCKET = BucketName("autoscaler-bucket-00-of-01")
OTHER = BucketName("autoscaler-bucket-01-of-02")


class Subject:
    """A queue of at most five, and a way to raise a bucket's fence."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._states: RedisState | None = None
        self.queue: MemoryStats | RedisStats
        if backend.connection is None:
            self.queue = MemoryStats(max_queued=5)
        else:
            self.queue = RedisStats(backend.connection, backend.keys, max_queued=5)
            self._states = RedisState(backend.connection, backend.keys)

    def set_total(self, total: int) -> None:
        """The number of buckets in force."""
        if isinstance(self.queue, MemoryStats):
            self.queue.total = total
        elif self._backend.connection is not None:
            self._backend.connection.execute("SET", self._backend.keys.total(), total)

    def raise_fence(self, token: int) -> None:
        if self._states is not None:
            self._states.raise_fence(BUCKET, FencingToken(token))
        elif isinstance(self.queue, MemoryStats):
            self.queue.fences[BUCKET] = token


@pytest.fixture
def subject(backend: Backend) -> Subject:
    return Subject(backend)


def test_they_are_read_in_order_and_stay(subject: Subject) -> None:
    queue = subject.queue
    assert [queue.put(BUCKET, stat) for stat in (b"a", b"b", b"c")] == [1, 2, 3]
    assert list(queue.read(BUCKET, 0, 2)) == [b"a", b"b"]
    assert list(queue.read(BUCKET, 1, 100)) == [b"b", b"c"]
    assert list(queue.read(BUCKET, 3, 100)) == []
    assert list(queue.read(OTHER, 0, 100)) == []


def test_those_with_a_fate_are_removed_each_once_and_again_does_no_harm(subject: Subject) -> None:
    queue = subject.queue
    for stat in (b"a", b"b", b"a", b"c"):
        queue.put(BUCKET, stat)
    queue.remove(BUCKET, FencingToken(1), [b"b", b"a"])
    assert list(queue.read(BUCKET, 0, 100)) == [b"a", b"c"]
    queue.remove(BUCKET, FencingToken(1), [b"b"])
    assert list(queue.read(BUCKET, 0, 100)) == [b"a", b"c"]


def test_an_earlier_owner_removes_nothing(subject: Subject) -> None:
    subject.queue.put(BUCKET, b"a")
    subject.raise_fence(7)
    with pytest.raises(OwnershipLost):
        subject.queue.remove(BUCKET, FencingToken(6), [b"a"])
    assert list(subject.queue.read(BUCKET, 0, 100)) == [b"a"]
    subject.queue.remove(BUCKET, FencingToken(7), [b"a"])
    assert list(subject.queue.read(BUCKET, 0, 100)) == []


def test_one_too_many_is_refused(subject: Subject) -> None:
    for number in range(5):
        subject.queue.put(BUCKET, b"%d" % number)
    with pytest.raises(PeerRefused):
        subject.queue.put(BUCKET, b"5")
    assert subject.queue.put(OTHER, b"5") == 1
    assert len(subject.queue.read(BUCKET, 0, 100)) == 5


def test_whoever_missed_a_resize_leaves_no_stat_where_nobody_looks(subject: Subject) -> None:
    subject.set_total(2)
    with pytest.raises(PeerRefused, match="another number of buckets"):
        subject.queue.put(BUCKET, b"a")
    assert list(subject.queue.read(BUCKET, 0, 100)) == []
    assert subject.queue.put(OTHER, b"a") == 1
