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


def test_facts_are_read_back_sorted_by_agent(registry: Store) -> None:
    registry.publish("b", b'{"name": "a b\\n"}', 100)
    registry.publish("a", b"\x00 x", 100)
    assert [(record.agent_id, record.facts) for record in registry.list()] == [
        ("a", b"\x00 x"),
        ("b", b'{"name": "a b\\n"}'),
    ]


def test_the_age_counts_from_the_last_publication(registry: Store, backend: Backend) -> None:
    registry.publish("a", b"1", 10_000)
    backend.elapse(300)
    assert registry.list()[0].age_ms >= 300_000
    registry.publish("a", b"2", 10_000)
    (record,) = registry.list()
    assert record.facts == b"2"
    assert record.age_ms < 300_000


def test_facts_are_gone_after_their_time(registry: Store, backend: Backend) -> None:
    registry.publish("short", b"1", 1_000)
    registry.publish("long", b"1", 10_000)
    backend.elapse(1_001)
    assert ids(registry) == ["long"]
    registry.publish("other", b"1", 1_000)
    assert ids(registry) == ["long", "other"]


def test_one_that_withdraws_is_gone_at_once(registry: Store) -> None:
    registry.publish("a", b"1", 100)
    registry.withdraw("a")
    registry.withdraw("a")
    assert ids(registry) == []
