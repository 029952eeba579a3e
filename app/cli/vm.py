"""`vmscaler vm list|show|set`: the VMs, one VM's facts, and the operator's word on its mode.

The word on its size is in `vm_resize`, the commands for VMs on this machine are in `vm_local`.
"""

from __future__ import annotations

import click

from app.cli.fleet_access import fleet_access, this_author
from app.cli.shapes import intent_shape, lease_shape, show_json, vm_shape
from app.cli.tables import Column, show_facts, show_table
from app.cli.taking_up import show_taken_up, taken_up_shape
from app.cli.vm_load import load_command
from app.cli.vm_local import (
    console_command,
    create_command,
    delete_command,
    local_command,
    start_command,
    stop_command,
)
from app.cli.vm_resize import resize_command
from app.cli.vm_texts import bucket_text, list_cells, vm_facts
from app.core.model import Mode
from app.protocols.printable import printable

_COLUMNS = (
    Column("vm"),
    Column("bucket"),
    Column("worker"),
    Column("state"),
    Column("load1", is_right=True),
    Column("cpu"),
    Column("memory"),
    Column("sample", is_right=True),
    Column("why", is_wide=True, is_cut=True),
)


_UNREADABLE = {"unreadable": "not shown", "unreadable-vm": "can't be read, so left alone"}
"""Problems that the list tells of, and how: records, and descriptions at the platform."""


@click.group("vm")
def vm_group() -> None:
    """Look at VMs, set their mode and size; run some on this machine."""


for _command in (
    create_command,
    start_command,
    stop_command,
    delete_command,
    console_command,
    local_command,
    load_command,
    resize_command,
):
    vm_group.add_command(_command)


@vm_group.command("list")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: now_ms, vms, unreadable, problems."
)
@click.pass_context
def list_command(context: click.Context, as_json: bool) -> None:
    """List all VMs: sizes as now → desired, with the observed size in brackets where it differs."""
    inspection = fleet_access(context).inspection
    inspection.check_total()
    view = inspection.fleet_view()
    unreadable = [problem for problem in view.problems if problem.code in _UNREADABLE]
    if as_json:
        show_json(
            {
                "now_ms": view.now_ms,
                "vms": [vm_shape(row) for row in view.vms],
                "unreadable": [printable(problem.subject) for problem in unreadable],
                "problems": [printable(problem.text, 400) for problem in unreadable],
            }
        )
        return
    if view.vms:
        show_table(_COLUMNS, [list_cells(row) for row in view.vms])
    else:
        click.echo("no VM is known yet")
    for problem in unreadable:
        click.echo(f"{_UNREADABLE[problem.code]}: {printable(problem.text, 400)}", err=True)


@vm_group.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def show_command(context: click.Context, name: str, as_json: bool) -> None:
    """Show the facts about VM NAME."""
    inspection = fleet_access(context).inspection
    view = inspection.vm_view(inspection.resolve(name))
    if as_json:
        lease = None if view.lease is None else lease_shape(view.lease)
        show_json({"now_ms": view.now_ms, **vm_shape(view.row), "lease": lease})
        return
    click.echo(printable(view.row.key))
    show_facts(vm_facts(view), indent="  ")


@vm_group.command("set")
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["scale", "observe", "default"]),
    required=True,
    help="scale; observe: decide and show, but ask nothing of anyone; default: as the platform says.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why; shown in the audit trail.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def set_command(context: click.Context, name: str, mode: str, reason: str, as_json: bool) -> None:
    """Override whether VM NAME is scaled or only observed.

    Waits up to 5 s for the owner; exit status 0 once the wish is recorded.
    """
    access = fleet_access(context)
    key = access.inspection.resolve(name)
    bucket = access.inspection.bucket_of(key)
    author = this_author(reason)
    if mode == "default":
        done = access.instructing.clear_mode(key, bucket, author)
    else:
        done = access.instructing.set_mode(key, bucket, Mode(mode), author)
    if not as_json:
        told = "as the platform says" if mode == "default" else mode
        click.echo(f"mode of {printable(key)} in {bucket_text(bucket)}: {told}")
    missing = access.instructing.wait(done)
    if not as_json:
        show_taken_up(done, missing)
        return
    intent = intent_shape(done.written[0] if done.written else None)
    show_json({"change": "mode", "mode": mode, "intent": intent, **taken_up_shape(done, missing)})
