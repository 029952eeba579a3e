"""What every `AgentStore` does: one id once, in the order of the checks, numbers that only grow."""

from __future__ import annotations

import threading

import pytest

from app.adapters.redis_agent_set import RedisAgentSet
from app.protocols.agent_store import MAX_NAME_CHARACTERS, AgentStore, Entry, MemoryAgentStore, StoredAgent
from app.protocols.informant import AgentAnswer, AgentDesc
from app.protocols.informant_set import AgentSet, CallAgent, OldNumber, Refusal, SetEffect
from tests.contract.conftest import Backend

TTL_S = 1_000.0
LIMIT = 4


@pytest.fixture
def store(backend: Backend) -> AgentStore:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryAgentStore(limit=LIMIT, ttl_s=TTL_S, now_ms=backend.clock.wall_ms)
    return RedisAgentSet(backend.connection, backend.keys, ttl_s=TTL_S, limit=LIMIT)


def an_agent(n: int, **changes: object) -> StoredAgent:
    desc = AgentDesc(f"{n:08d}-0000-4000-8000-000000000000", f"10.0.0.{n}:80", 1, 1)
    return StoredAgent(desc, f"worker1 default/db-{n}", **changes)  # type: ignore[arg-type]


def an_id(n: int) -> str:
    return an_agent(n).desc.agent_id


def ids(store: AgentStore) -> list[str]:
    return [agent.desc.agent_id for agent in store.list()]


def test_an_agent_is_found_by_its_id_at_once_and_listed_after_its_check(store: AgentStore) -> None:
    assert store.register(an_agent(1)) is Entry.ENTERED
    found = store.get(an_id(1))
    assert found is not None
    assert (found.desc, found.name, found.order, found.number) == (an_agent(1).desc, an_agent(1).name, 0, 0)
    assert ids(store) == []
    place = store.confirm(an_id(1))
    assert place is not None
    assert [agent.order for agent in store.list()] == [place]
    assert store.confirm(an_id(1)) == place, "a second time changes nothing"


def test_the_order_is_that_of_the_checks_not_of_the_entries(store: AgentStore) -> None:
    for n in (3, 1, 2):
        store.register(an_agent(n))
    for n in (2, 3, 1):
        store.confirm(an_id(n))
    assert ids(store) == [an_id(2), an_id(3), an_id(1)]
    orders = [agent.order for agent in store.list()]
    assert orders == sorted(set(orders))


def test_one_id_is_registered_once(store: AgentStore) -> None:
    assert store.register(an_agent(1)) is Entry.ENTERED
    assert store.register(an_agent(1)) is Entry.THERE
    store.confirm(an_id(1))
    assert store.register(an_agent(1)) is Entry.THERE
    assert store.unregister(an_id(1)) is True
    assert store.unregister(an_id(1)) is False
    assert store.register(an_agent(1)) is Entry.ENTERED
    again = store.get(an_id(1))
    assert again is not None
    assert (again.order, again.number) == (0, 0), "it starts anew"


def test_there_is_a_bound(store: AgentStore) -> None:
    assert [store.register(an_agent(n)) for n in range(LIMIT)] == [Entry.ENTERED] * LIMIT
    assert store.register(an_agent(LIMIT)) is Entry.FULL
    store.unregister(an_id(0))
    assert store.register(an_agent(LIMIT)) is Entry.ENTERED


def test_numbers_only_grow_and_hold_all_64_bits(store: AgentStore) -> None:
    store.register(an_agent(1))
    numbers = [1, 5, 3, 5, 10, 9, 2**53, 2**53 + 1, 2**64 - 1, 7]
    before = [store.note(an_id(1), number) for number in numbers]
    assert before == [0, 1, 5, 5, 5, 10, 10, 2**53, 2**53 + 1, 2**64 - 1]
    found = store.get(an_id(1))
    assert found is not None
    assert found.number == 2**64 - 1


def test_nothing_is_known_of_an_agent_that_is_not_there(store: AgentStore) -> None:
    assert store.get(an_id(1)) is None
    assert store.note(an_id(1), 3) is None
    assert store.confirm(an_id(1)) is None
    assert store.heartbeat({an_id(1): 3}) == [an_id(1)]
    assert store.get(an_id(1)) is None


def test_an_agent_without_a_heartbeat_is_gone_after_its_time(store: AgentStore, backend: Backend) -> None:
    for n in (1, 2):
        store.register(an_agent(n))
        store.confirm(an_id(n))
    backend.elapse(TTL_S - 100)
    assert store.heartbeat({an_id(2): 8}) == []
    backend.elapse(200)
    assert ids(store) == [an_id(2)]
    assert store.get(an_id(1)) is None
    assert store.heartbeat({an_id(1): 1, an_id(2): 9}) == [an_id(1)]
    assert store.list()[0].number == 9
    assert store.register(an_agent(1)) is Entry.ENTERED


def test_expiring_tells_who_has_gone(store: AgentStore, backend: Backend) -> None:
    store.register(an_agent(2))
    store.register(an_agent(1))
    assert store.expire() == []
    backend.elapse(TTL_S + 1)
    assert store.expire() == [an_id(1), an_id(2)]
    assert store.expire() == []


def test_what_the_store_has_lost_comes_back_in_its_old_place_with_its_number(store: AgentStore) -> None:
    for n in (1, 2):
        store.register(an_agent(n))
        store.confirm(an_id(n))
    store.note(an_id(1), 40)
    kept = store.get(an_id(1))
    assert kept is not None
    store.unregister(an_id(1))
    store.register(an_agent(1, order=kept.order, number=kept.number))
    assert ids(store) == [an_id(1), an_id(2)]
    assert store.note(an_id(1), 41) == 40
    store.register(an_agent(3))
    store.confirm(an_id(3))
    assert ids(store) == [an_id(1), an_id(2), an_id(3)]


def test_ages_count_from_the_last_heartbeat(store: AgentStore, backend: Backend) -> None:
    store.register(an_agent(1))
    backend.elapse(300)
    found = store.get(an_id(1))
    assert found is not None
    assert 300_000 <= found.age_ms < 400_000
    store.heartbeat({an_id(1): 1})
    found = store.get(an_id(1))
    assert found is not None
    assert found.age_ms < 100_000


def test_a_clock_that_went_back_keeps_nobody_for_ever(store: AgentStore, backend: Backend) -> None:
    store.register(an_agent(1))
    backend.elapse(-10 * TTL_S)
    store.register(an_agent(2))
    found = store.get(an_id(1))
    assert found is not None
    assert found.age_ms < 100_000
    backend.elapse(TTL_S + 1)
    assert store.expire() == [an_id(1), an_id(2)]


def test_a_long_name_is_cut_and_a_strange_one_kept(store: AgentStore) -> None:
    agent = an_agent(1)
    store.register(StoredAgent(agent.desc, "\u202e\n\x00é" + "x" * 2 * MAX_NAME_CHARACTERS))
    found = store.get(an_id(1))
    assert found is not None
    assert found.name == "\u202e\n\x00é" + "x" * (MAX_NAME_CHARACTERS - 4)


def test_of_many_that_register_one_id_at_once_one_wins(store: AgentStore, backend: Backend) -> None:
    if backend.connection is None:
        pytest.skip("memory is used by one thread at a time")
    outcomes: list[Entry] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(store.register(an_agent(1)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=lambda entry: entry.name) == [Entry.ENTERED] + [Entry.THERE] * 15


def test_order_and_numbers_outlast_the_connection(store: AgentStore, backend: Backend) -> None:
    if backend.connection is None:
        pytest.skip("memory has no connection")
    for n in (1, 2):
        store.register(an_agent(n))
        store.confirm(an_id(n))
        store.note(an_id(n), 10 + n)
    backend.connection.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    backend.connection.close()
    assert [(agent.desc.agent_id, agent.number) for agent in store.list()] == [(an_id(1), 11), (an_id(2), 12)]
    store.register(an_agent(3))
    store.confirm(an_id(3))
    assert ids(store)[-1] == an_id(3)


# --- the informant's set over either store -------------------------------------------------------------


class Agents:
    """Agents that answer everything at once, with numbers that a test may set."""

    def __init__(self, store: AgentStore) -> None:
        self.set = AgentSet(store=store)
        self.number = 0
        self.seen: list[str] = []
        self.old: list[OldNumber] = []

    def register(self, n: int) -> object:
        outcome = self.set.register(an_agent(n).desc, caller="10.0.0.1")
        if isinstance(outcome, Refusal):
            return outcome.status
        self.run(outcome[1])
        return None

    def run(self, effects: list[SetEffect]) -> None:
        for effect in effects:
            if isinstance(effect, CallAgent):
                self.number += 1
                self.seen.append(f"{effect.desc.agent_id[7]}{effect.request.path}")
                answer = AgentAnswer(effect.desc.agent_id, self.number)
                self.run(self.set.answered(0.0, effect.number, answer))
            elif isinstance(effect, OldNumber):
                self.old.append(effect)


@pytest.fixture
def agents(store: AgentStore) -> Agents:
    return Agents(store)


def test_the_set_hands_a_vm_over_in_the_order_of_registration(agents: Agents) -> None:
    for n in (1, 2, 3):
        assert agents.register(n) is None

    def current() -> str | None:
        return None if agents.set.current is None else agents.set.current.desc.agent_id

    assert current() == an_id(3)
    for n, expected in ((3, an_id(2)), (1, an_id(2)), (2, None)):
        outcome = agents.set.unregister(an_agent(n).desc)
        assert not isinstance(outcome, Refusal)
        agents.run(outcome[1])
        assert current() == expected
    assert agents.seen[:5] == ["1/id", "1/resume", "2/id", "2/resume", "1/suspend"]


def test_the_set_refuses_an_id_that_is_there_and_more_agents_than_the_bound(agents: Agents) -> None:
    assert [agents.register(n) for n in range(LIMIT)] == [None] * LIMIT
    assert agents.register(0) == 409
    assert agents.register(LIMIT) == 503


def test_the_set_reports_an_old_number_and_does_not_act_on_it(agents: Agents) -> None:
    agents.number = 10
    agents.register(1)
    agents.number = 3
    agents.run(agents.set.tick(100.0))
    assert [(old.number, old.last) for old in agents.old] == [(4, 12)]
    assert [agent.desc.agent_id for agent in agents.set.registered] == [an_id(1)]
