"""`vmscaler status`: is the fleet at work, and what needs a look."""

from __future__ import annotations

from collections.abc import Mapping

import click

from app.cli.fleet_access import fleet_access
from app.cli.shapes import fleet_shape, show_json
from app.cli.tables import Column, show_facts, show_table
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow
from app.services.fleet_view import FleetView
from app.services.wording import ago_text, bytes_text, count_text, cpu_text, span_text

NEEDS_A_LOOK = 1
"""Exit status when there is a problem."""

_AGENT_COLUMNS = (
    Column("process"),
    Column("name"),
    Column("buckets", is_right=True),
    Column("vms", is_right=True),
    Column("up", is_right=True),
    Column("heartbeat", is_right=True),
    Column("pid", is_right=True),
    Column("address"),
)


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def status_command(context: click.Context, as_json: bool) -> int:
    """Show whether the fleet is at work, and what needs a look.

    Exit status 0: healthy; 1: something needs a look; above that: it could not be found out.
    """
    view = fleet_access(context).inspection.fleet_view()
    if as_json:
        show_json(fleet_shape(view))
    else:
        _show(view)
    return 0 if view.is_healthy else NEEDS_A_LOOK


def _show(view: FleetView) -> None:
    if view.is_healthy:
        click.echo("healthy")
    else:
        click.echo(f"needs a look: {count_text(len(view.problems), 'problem')}")
        for problem in view.problems:
            click.echo(f"  ! {printable(problem.text, 300)}")
    click.echo()
    show_facts(_facts(view))
    click.echo()
    if view.agents:
        show_table(_AGENT_COLUMNS, [_agent_cells(agent, view.now_ms) for agent in view.agents])
    else:
        click.echo("no process of the fleet is running")


def _facts(view: FleetView) -> list[tuple[str, str]]:
    totals, counters = view.totals, view.counters
    held = sum(lease.holder is not None for lease in view.leases)
    observed = f", {totals.observed} observed" if totals.observed else ""
    paused = f", {totals.paused} paused" if totals.paused else ""
    fixed = f", {totals.fixed} fixed by hand" if totals.fixed else ""
    short = f", {totals.short} short of a permit" if totals.short else ""
    return [
        (
            "VMs",
            f"{totals.vms}: {totals.scaled} scaled{observed}{paused}{fixed}, "
            f"{totals.resizing} being resized{short}",
        ),
        ("CPU", f"{cpu_text(totals.cpu_use_m)} in use, {cpu_text(totals.cpu_desired_m)} desired"),
        (
            "memory",
            f"{bytes_text(totals.mem_use_bytes)} in use, {bytes_text(totals.mem_desired_bytes)} desired",
        ),
        ("buckets", f"{held} of {len(view.leases)} held"),
        ("last poll", ago_text(view.last_poll_ms, view.now_ms)),
        ("polls", f"{_of(counters, 'polls')}, {_of(counters, 'poll_failures')} failed"),
        ("resizes", f"{_of(counters, 'upscales')} up, {_of(counters, 'downscales')} down completed"),
        (
            "held back",
            f"{_of(counters, 'denied')} denied, {_of(counters, 'failed')} failed, "
            f"{_of(counters, 'not_applied')} not applied",
        ),
    ]


def _of(counters: Mapping[str, int], name: str) -> int:
    return counters.get(name, 0)


def _agent_cells(agent: AgentRow, now: int) -> tuple[str, ...]:
    is_worker = agent.kind == "worker"
    return (
        agent.kind,
        agent.name + (" (draining)" if agent.is_draining else ""),
        str(len(agent.buckets)) if is_worker else "",
        str(agent.vms) if is_worker else "",
        "" if agent.started_ms is None else span_text(now - agent.started_ms),
        f"{span_text(agent.age_ms)} ago",
        "" if agent.pid is None else str(agent.pid),
        agent.address or "",
    )
