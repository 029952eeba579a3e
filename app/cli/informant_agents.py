"""`vmscaler informant list`: the agents that workers are towards informants, as Redis lists them."""

from __future__ import annotations

import json

import click

from app.cli.config import settings_in_force
from app.cli.tables import Column, show_table
from app.protocols.agent_store import AgentStore, StoredAgent
from app.protocols.printable import printable
from app.services.wording import ago_text

COLUMNS = (
    Column("vm"),
    Column("worker"),
    Column("address"),
    Column("number", is_right=True),
    Column("seen", is_right=True),
    Column("agent"),
)


def show_agents(context: click.Context, *, is_json: bool) -> None:
    """Write them to standard output.

    Raises:
        StoreUnavailable: Redis gives no answer.
        ConfigurationError: the configuration is wrong.
    """
    store: AgentStore | None = context.obj
    if store is None:
        from app.bootstrap.reading import build_informant_agents

        store = build_informant_agents(settings_in_force(context))
    agents = store.list()
    if is_json:
        click.echo(json.dumps({"agents": [_facts(agent) for agent in agents]}))
    elif agents:
        show_table(COLUMNS, [_row(agent) for agent in agents])
    else:
        click.echo("no worker is an agent of any VM (setting informant.register)")


def _facts(agent: StoredAgent) -> dict[str, object]:
    worker, _, vm = agent.name.partition(" ")
    return {
        "vm": printable(vm),
        "worker": printable(worker),
        "address": printable(agent.desc.address),
        "agent_id": agent.desc.agent_id,
        "order": agent.order,
        "number": agent.number,
        "age_ms": agent.age_ms,
    }


def _row(agent: StoredAgent) -> list[str]:
    facts = _facts(agent)
    texts = [str(facts[name]) for name in ("vm", "worker", "address", "number")]
    return [*texts, ago_text(0, agent.age_ms), agent.desc.agent_id]
