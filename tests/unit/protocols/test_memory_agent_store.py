"""Beyond the contract of every store: the clock and the bounds of the one in memory."""

from __future__ import annotations

import pytest

from app.protocols.agent_store import Entry, MemoryAgentStore, StoredAgent
from app.protocols.informant import AgentDesc

TTL_S = 10.0
IDS = tuple(f"{n:08d}-0000-4000-8000-000000000000" for n in range(4))


class Clock:
    """Milliseconds, set by the test."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryAgentStore:
    return MemoryAgentStore(limit=3, ttl_s=TTL_S, now_ms=clock)


def an_agent(n: int, order: int = 0) -> StoredAgent:
    return StoredAgent(AgentDesc(IDS[n], f"10.0.0.{n}:80", 1, 1), order=order)


def test_an_id_is_taken_once_and_the_limit_is_kept(store: MemoryAgentStore) -> None:
    assert [store.register(an_agent(n)) for n in (0, 0, 1, 2, 3)] == [
        Entry.ENTERED,
        Entry.THERE,
        Entry.ENTERED,
        Entry.ENTERED,
        Entry.FULL,
    ]


def test_agents_are_listed_in_the_order_of_their_first_confirmation(store: MemoryAgentStore) -> None:
    for n in (0, 1, 2):
        store.register(an_agent(n))
    assert [store.confirm(IDS[n]) for n in (2, 0, 2)] == [1, 2, 1]
    assert [agent.desc.agent_id for agent in store.list()] == [IDS[2], IDS[0]]


def test_one_that_comes_with_its_order_keeps_it_and_later_ones_go_behind(store: MemoryAgentStore) -> None:
    store.register(an_agent(0, order=7))
    store.register(an_agent(1))
    assert store.confirm(IDS[0]) == 7
    assert store.confirm(IDS[1]) == 8


def test_what_is_not_there_has_neither_place_nor_number(store: MemoryAgentStore) -> None:
    assert store.confirm(IDS[0]) is None
    assert store.note(IDS[0], 5) is None
    assert store.get(IDS[0]) is None
    assert store.unregister(IDS[0]) is False
    assert store.heartbeat({IDS[0]: 1}) == [IDS[0]]


def test_a_number_that_was_seen_comes_back_at_the_next_and_never_falls(store: MemoryAgentStore) -> None:
    store.register(an_agent(0))
    assert [store.note(IDS[0], number) for number in (5, 3, 9)] == [0, 5, 5]
    found = store.get(IDS[0])
    assert found is not None
    assert found.number == 9


def test_an_agent_without_a_heartbeat_ends_at_its_time_and_makes_room(
    store: MemoryAgentStore, clock: Clock
) -> None:
    for n in (0, 1, 2):
        store.register(an_agent(n))
    clock.ms += 9_999
    assert store.heartbeat({IDS[1]: 1}) == []
    clock.ms += 1
    assert store.get(IDS[0]) is None
    assert store.register(an_agent(3)) is Entry.ENTERED
    assert store.expire() == [], "registering has done it"
    clock.ms += 9_999
    assert store.expire() == [IDS[1]]


def test_a_clock_that_went_back_lets_an_agent_live_no_longer_than_its_time(
    store: MemoryAgentStore, clock: Clock
) -> None:
    store.register(an_agent(0))
    clock.ms -= 500_000
    found = store.get(IDS[0])
    assert found is not None
    assert found.age_ms == 0
    clock.ms += 10_000
    assert store.get(IDS[0]) is None
