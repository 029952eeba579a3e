"""What every `IntentStore` does: one standing intent per target and kind, until its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.adapters.redis_intents import RedisIntents
from app.ports.store import BucketName, Intent
from tests.contract.conftest import Backend
from tests.fakes.intents import MemoryIntents

BUCKET, OTHER = BucketName("autoscaler-bucket-00-of-02"), BucketName("autoscaler-bucket-01-of-02")
PAUSE = Intent("ns/vm", "pause", "on", None, "a reason\nof two lines: ü", "ann", 5, "id-1")

Store = RedisIntents | MemoryIntents


@pytest.fixture
def store(backend: Backend) -> Store:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryIntents(backend.clock)
    return RedisIntents(backend.connection, backend.keys)


def test_an_intent_is_read_back_whole_by_its_bucket_alone(store: Store) -> None:
    store.put(BUCKET, PAUSE)
    assert store.list(BUCKET) == [PAUSE]
    assert store.list(OTHER) == []


def test_a_second_one_of_the_same_target_and_kind_takes_its_place(store: Store) -> None:
    later = replace(PAUSE, value="off", intent_id="id-2")
    store.put(BUCKET, PAUSE)
    store.put(BUCKET, later)
    assert store.list(BUCKET) == [later]


def test_targets_and_kinds_stand_beside_each_other(store: Store) -> None:
    mode = replace(PAUSE, kind="mode", value="observe")
    for_all = replace(PAUSE, target="*")
    for intent in (PAUSE, mode, for_all):
        store.put(BUCKET, intent)
    assert store.list(BUCKET) == [for_all, mode, PAUSE]


def test_taking_one_back_says_whether_there_was_one(store: Store) -> None:
    store.put(BUCKET, PAUSE)
    assert not store.remove(BUCKET, PAUSE.target, "mode")
    assert not store.remove(OTHER, PAUSE.target, PAUSE.kind)
    assert store.remove(BUCKET, PAUSE.target, PAUSE.kind)
    assert not store.remove(BUCKET, PAUSE.target, PAUSE.kind)
    assert store.list(BUCKET) == []


def test_an_intent_ends_by_itself(store: Store, backend: Backend) -> None:
    timed = replace(PAUSE, until_ms=backend.now_ms() + 3_600_000)
    store.put(BUCKET, timed)
    assert store.list(BUCKET) == [timed]
    store.put(BUCKET, replace(timed, until_ms=backend.now_ms()))
    assert store.list(BUCKET) == []
    store.put(BUCKET, replace(timed, until_ms=0))
    assert store.list(BUCKET) == []
