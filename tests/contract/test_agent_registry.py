"""What every `AgentRegistry` does: facts with their age, gone when their time is over."""

from __future__ import annotations

import pytest

from app.adapters.redis_agents import RedisAgents
from tests.contract.conftest import Backend
from tests.fakes.agents import MemoryAgents

Store = RedisAgents | MemoryAgents


@pytest.fixture
def registry(backend: Backend) -> Store:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryAgents(backend.clock)
    return RedisAgents(backend.connection, backend.keys)


def ids(registry: Store) -> list[str]:
    return [record.agent_id for record in registry.list()]


def lose_everything(registry: Store, backend: Backend) -> None:
    if isinstance(registry, MemoryAgents):
        registry.lose_everything()
        return
    assert backend.connection is not None
    keys = backend.keys
    names = keys.agents(), keys.agents_until(), keys.agents_seen(), keys.agents_order()
    backend.connection.execute("DEL", *names)


def test_facts_are_read_back_in_the_order_of_registration(registry: Store) -> None:
    registry.register("b", b'{"name": "a b\\n"}', 100)
    registry.register("a", b"\x00 x", 100)
    assert [(record.agent_id, record.facts) for record in registry.list()] == [
        ("b", b'{"name": "a b\\n"}'),
        ("a", b"\x00 x"),
    ]
    assert registry.heartbeat("b", b"new", 100)
    assert ids(registry) == ["b", "a"]
    assert registry.register("b", b"newer", 100) < registry.register("a", b"newer", 100)


def test_one_is_got_by_its_id_and_an_unknown_one_is_none(registry: Store, backend: Backend) -> None:
    number = registry.register("a", b"1", 100)
    found = registry.get("a")
    assert found is not None
    assert (found.agent_id, found.facts, found.number) == ("a", b"1", number)
    assert found == registry.list()[0] or found.age_ms < 60_000
    assert registry.get("b") is None
    backend.elapse(101)
    assert registry.get("a") is None


def test_the_heartbeat_of_one_that_is_not_registered_writes_nothing(registry: Store) -> None:
    assert not registry.heartbeat("a", b"1", 100)
    assert ids(registry) == []


def test_the_age_counts_from_the_last_heartbeat(registry: Store, backend: Backend) -> None:
    registry.register("a", b"1", 10_000)
    backend.elapse(300)
    assert registry.list()[0].age_ms >= 300_000
    assert registry.heartbeat("a", b"2", 10_000)
    (record,) = registry.list()
    assert record.facts == b"2"
    assert record.age_ms < 300_000


def test_one_without_heartbeat_expires(registry: Store, backend: Backend) -> None:
    registry.register("short", b"1", 1_000)
    registry.register("long", b"1", 10_000)
    backend.elapse(1_001)
    assert ids(registry) == ["long"]
    assert not registry.heartbeat("short", b"2", 1_000)
    registry.register("other", b"1", 1_000)
    assert ids(registry) == ["long", "other"]


def test_expiring_says_who_is_gone(registry: Store, backend: Backend) -> None:
    registry.register("a", b"1", 1_000)
    registry.register("b", b"1", 10_000)
    assert registry.expire() == []
    backend.elapse(1_001)
    assert registry.expire() == ["a"]
    assert registry.expire() == []
    assert ids(registry) == ["b"]


def test_one_that_unregisters_is_gone_at_once(registry: Store) -> None:
    registry.register("a", b"1", 100)
    assert registry.unregister("a")
    assert not registry.unregister("a")
    assert ids(registry) == []


def test_a_loss_of_all_keys_changes_no_number_and_no_order(registry: Store, backend: Backend) -> None:
    first, second = registry.register("z", b"1", 100), registry.register("a", b"1", 100)
    lose_everything(registry, backend)
    assert not registry.heartbeat("a", b"2", 100)
    while backend.now_ms() <= second:
        backend.elapse(0.001)
    newer = registry.register("new", b"1", 100)
    assert registry.register("a", b"2", 100, number=second) == second
    assert registry.register("z", b"2", 100, number=first) == first
    assert first < second < newer
    assert ids(registry) == ["z", "a", "new"]


def test_a_clock_that_went_back_keeps_no_dead_agent(registry: Store, backend: Backend) -> None:
    registry.register("dead", b"1", 100)
    registry.register("live", b"1", 100)
    backend.elapse(-3600)
    assert registry.heartbeat("live", b"1", 1_000)
    backend.elapse(101)
    assert registry.expire() == ["dead"]
    assert ids(registry) == ["live"]
