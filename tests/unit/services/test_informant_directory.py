"""The listing of a worker's agents: equal to what is registered, whatever Redis goes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.errors import StoreUnavailable
from app.protocols.agent_store import MemoryAgentStore, StoredAgent
from app.protocols.informant import AgentDesc
from app.services.informant_directory import InformantDirectory


def an_agent(n: int, number: int = 0) -> StoredAgent:
    desc = AgentDesc(f"{n:08d}-0000-4000-8000-000000000000", f"10.0.0.{n}:80", 1, 1)
    return StoredAgent(desc, f"worker1 default/db-{n}", number=number)


def by_id(*agents: StoredAgent) -> dict[str, StoredAgent]:
    return {agent.desc.agent_id: agent for agent in agents}


class AwayStore(MemoryAgentStore):
    """One that can be switched off."""

    is_away = False

    def heartbeat(self, numbers: Mapping[str, int]) -> Sequence[str]:
        if self.is_away:
            raise StoreUnavailable("redis", "no answer")
        return super().heartbeat(numbers)


def names(store: MemoryAgentStore) -> list[str]:
    return [agent.name.rpartition("-")[2] for agent in store.list()]


def test_agents_are_entered_kept_and_taken_away() -> None:
    store = MemoryAgentStore()
    directory = InformantDirectory(store, dict)
    directory.refresh(by_id(an_agent(2), an_agent(1)))
    assert names(store) == ["2", "1"]
    directory.refresh(by_id(an_agent(2, number=9), an_agent(1)))
    assert [agent.number for agent in store.list()] == [9, 0]
    directory.refresh(by_id(an_agent(1)))
    assert names(store) == ["1"]
    directory.end()
    assert names(store) == []


def test_an_agent_that_redis_has_lost_comes_back_in_its_place() -> None:
    store = MemoryAgentStore()
    directory = InformantDirectory(store, dict)
    directory.refresh(by_id(an_agent(1), an_agent(2)))
    store.unregister(an_agent(1).desc.agent_id)
    directory.refresh(by_id(an_agent(1, number=5), an_agent(2)))
    assert names(store) == ["1", "2"]
    assert store.list()[0].number == 5


def test_a_redis_that_is_away_ends_a_round_and_nothing_else() -> None:
    store = AwayStore()
    directory = InformantDirectory(store, dict)
    directory.refresh(by_id(an_agent(1)))
    store.is_away = True
    directory.refresh(by_id(an_agent(1), an_agent(2)))
    assert names(store) == ["1"]
    store.is_away = False
    directory.refresh(by_id(an_agent(1), an_agent(2)))
    assert names(store) == ["1", "2"]
