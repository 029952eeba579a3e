"""`vmscaler agents`: the registry of the fleet's processes, in the order of their registration."""

from __future__ import annotations

import click

from app.cli.fleet_access import fleet_access
from app.cli.shapes import agent_shape, show_json
from app.cli.tables import Column, show_table
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow
from app.services.wording import count_text, span_text

MAX_SHOWN = 1_000
"""Processes; whoever can write to Redis can register more."""

_COLUMNS = (
    Column("process"),
    Column("name"),
    Column("identity"),
    Column("agent id"),
    Column("address"),
    Column("protocol", is_right=True),
    Column("up", is_right=True),
    Column("heartbeat", is_right=True),
    Column("buckets", is_right=True),
    Column("vms", is_right=True),
    Column("problems", is_wide=True),
)


@click.command("agents")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: now_ms, agents, left_out.")
@click.pass_context
def agents_command(context: click.Context, as_json: bool) -> None:
    """List the live processes that have registered, the first one first.

    One without heartbeat is gone from the list after 10 s.
    """
    inspection = fleet_access(context).inspection
    rows, now = inspection.agents(), inspection.now()
    shown, left_out = rows[:MAX_SHOWN], max(len(rows) - MAX_SHOWN, 0)
    if as_json:
        agents = [agent_shape(row) for row in shown]
        show_json({"now_ms": now, "agents": agents, "left_out": left_out})
        return
    if not shown:
        click.echo("no process of the fleet is running")
        return
    show_table(_COLUMNS, [_cells(row, now) for row in shown])
    if left_out:
        click.echo(f"… and {count_text(left_out, 'process', 'processes')} more")


def _cells(row: AgentRow, now: int) -> tuple[str, ...]:
    is_worker = row.kind == "worker"
    notes = (["draining"] if row.is_draining else []) + [printable(text) for text in row.problems]
    return (
        row.kind,
        row.name,
        row.identity,
        printable(row.agent_id, 40),
        row.address or "",
        _range_text(row.protocol),
        "" if row.started_ms is None else span_text(now - row.started_ms),
        f"{span_text(row.age_ms)} ago",
        str(len(row.buckets)) if is_worker else "",
        str(row.vms) if is_worker else "",
        printable("; ".join(notes), 300),
    )


def _range_text(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return ""
    low, high = versions
    return str(low) if low == high else f"{low} to {high}"
