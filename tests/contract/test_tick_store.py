"""What every `TickStore` does: one turn a period for each bucket, spread, with a seq that only grows."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from app.adapters.redis_ticks import RedisTicks
from app.cluster.ring import bucket_names
from tests.contract.conftest import Backend
from tests.fakes.clock import FakeClock
from tests.fakes.ticks import MemoryTicks

# So long that a slow machine's own time makes no difference.
PERIOD_S = 100_000.0
TOTAL = 4

Store = RedisTicks | MemoryTicks


@pytest.fixture
def store(backend: Backend) -> Store:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryTicks(backend.clock)
    return RedisTicks(backend.connection, backend.keys)


def test_at_the_first_start_it_is_every_buckets_turn(store: Store) -> None:
    assert [bucket for bucket, _ in store.take_due(TOTAL, PERIOD_S)] == bucket_names(TOTAL)


def test_a_turn_is_taken_once(store: Store, backend: Backend) -> None:
    store.take_due(TOTAL, PERIOD_S)
    assert store.take_due(TOTAL, PERIOD_S) == []
    backend.elapse(PERIOD_S * 0.4)
    assert store.take_due(TOTAL, PERIOD_S) == []


def test_each_bucket_has_one_turn_a_period_and_not_all_at_once() -> None:
    clock = FakeClock()
    store = MemoryTicks(clock)
    for _ in range(20):  # two periods, in which the turns settle
        store.take_due(TOTAL, PERIOD_S)
        clock.advance(PERIOD_S / 10)
    turns: Counter[str] = Counter()
    at_once = []
    for _ in range(100):
        due = store.take_due(TOTAL, PERIOD_S)
        turns.update(bucket for bucket, _ in due)
        at_once.append(len(due))
        clock.advance(PERIOD_S / 10)
    assert set(turns) == set(bucket_names(TOTAL))
    assert all(9 <= count <= 11 for count in turns.values())
    assert max(at_once) == 1


def test_two_turns_of_a_bucket_are_half_a_period_apart_by_redis_clock(backend: Backend, store: Store) -> None:
    period_s, last, turns = 0.2, dict.fromkeys(bucket_names(TOTAL), 0), 0
    while turns < 5 * TOTAL:
        before = backend.now_ms()
        for bucket, _ in store.take_due(TOTAL, period_s):
            # The turn was taken at `before` or later, the one before at `last` or earlier.
            assert backend.now_ms() - last[bucket] >= period_s * 1000 / 2
            last[bucket] = before
            turns += 1
        if backend.clock is None:
            time.sleep(0.01)
        else:
            backend.elapse(0.01)


def test_the_seq_of_a_bucket_is_one_higher_each_turn(store: Store, backend: Backend) -> None:
    first = dict(store.take_due(TOTAL, PERIOD_S))
    backend.elapse(PERIOD_S)
    second = dict(store.take_due(TOTAL, PERIOD_S))
    assert second == {bucket: seq + 1 for bucket, seq in first.items()}


def test_a_clock_that_went_back_does_not_stop_the_turns(store: Store, backend: Backend) -> None:
    before = dict(store.take_due(TOTAL, PERIOD_S))
    backend.elapse(-50 * PERIOD_S)
    assert dict(store.take_due(TOTAL, PERIOD_S)) == {bucket: seq + 1 for bucket, seq in before.items()}


def test_a_seq_after_a_loss_of_data_is_above_the_one_before(store: Store, backend: Backend) -> None:
    store.take_due(TOTAL, PERIOD_S)
    backend.elapse(PERIOD_S)
    before = dict(store.take_due(TOTAL, PERIOD_S))
    backend.elapse(1)
    if isinstance(store, MemoryTicks):
        store.lose_everything()
    else:
        assert backend.connection is not None
        backend.connection.execute("DEL", *(backend.keys.seq(name) for name in bucket_names(TOTAL)))
        while backend.now_ms() <= max(before.values()):
            pass  # two turns were taken within a millisecond
    after = dict(store.take_due(TOTAL, PERIOD_S))
    assert all(after[bucket] > before[bucket] for bucket in bucket_names(TOTAL))


def test_readers_see_when_each_bucket_had_its_last_turn(store: Store, backend: Backend) -> None:
    assert store.last_turns(TOTAL) == [None] * TOTAL
    store.take_due(TOTAL, PERIOD_S)
    assert all(at is not None and abs(at - backend.now_ms()) < 60_000 for at in store.last_turns(TOTAL))
