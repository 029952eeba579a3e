"""`vmscaler informant list`: which worker is an agent of which VM."""

from __future__ import annotations

import json

from click.testing import CliRunner

from app.cli.informant import informant_group
from app.protocols.agent_store import MemoryAgentStore, StoredAgent
from app.protocols.informant import AgentDesc

ID = "6a1c5f6e-1111-4222-8333-0123456789ab"


def a_store(name: str = "worker1 default/db") -> MemoryAgentStore:
    store = MemoryAgentStore()
    store.register(StoredAgent(AgentDesc(ID, "10.0.0.1:20001", 1, 1), name, number=7))
    store.confirm(ID)
    return store


def run(store: MemoryAgentStore, *arguments: str) -> str:
    result = CliRunner().invoke(informant_group, ["list", *arguments], obj=store)
    assert result.exit_code == 0, result.output
    return result.output


def test_agents_are_listed_in_the_order_of_their_registration() -> None:
    titles, row = run(a_store()).splitlines()
    assert titles.split() == ["VM", "WORKER", "ADDRESS", "NUMBER", "SEEN", "AGENT"]
    assert row.split()[:4] == ["default/db", "worker1", "10.0.0.1:20001", "7"]
    assert row.endswith(ID)


def test_as_json_each_agent_is_an_object() -> None:
    (agent,) = json.loads(run(a_store(), "--json"))["agents"]
    assert agent == {
        "vm": "default/db",
        "worker": "worker1",
        "address": "10.0.0.1:20001",
        "agent_id": ID,
        "order": 1,
        "number": 7,
        "age_ms": 0,
    }


def test_without_agents_the_setting_is_named() -> None:
    assert "informant.register" in run(MemoryAgentStore())


def test_what_an_entry_says_is_escaped() -> None:
    assert "\x1b" not in run(a_store("w\x1b[31m default/db\u202e"))
