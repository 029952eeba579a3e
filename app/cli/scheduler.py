"""`vmscaler scheduler`: the built-in permit server, one per fleet; `scheduler request` asks one by hand."""

from __future__ import annotations

import os
from pathlib import Path

import click

from app.cli.scheduler_request import request_command
from app.config import load_settings
from app.errors import UsageError


@click.group("scheduler", invoke_without_command=True, commands=[request_command])
@click.option("--host", metavar="ADDRESS", help="Listen here; else nodeScheduler.host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen on this port, 0 for a free one; else nodeScheduler.port.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="One JSON line per question.",
)
@click.pass_context
def scheduler_command(ctx: click.Context, host: str | None, port: int | None, journal: Path | None) -> None:
    """Serve permits for VMs on nodes of limited capacity, until SIGTERM.

    For platforms that bring no scheduler. The nodes are those of nodeScheduler.nodes; a VM on another one is
    refused with 404. Workers find it in the registry.
    """
    if ctx.invoked_subcommand is None:
        _serve(ctx, host, port, journal)
    elif (host, port, journal) != (None, None, None):
        raise UsageError("scheduler: --host, --port and --journal are for serving, not for a request")


def _serve(ctx: click.Context, host: str | None, port: int | None, journal: Path | None) -> None:
    """Run the server until SIGTERM."""
    # Clients are loaded after the patch: their locks and sockets must be cooperative ones.
    from app.web.server import on_termination, patch_process

    patch_process()
    from app.bootstrap.scheduler import SchedulerProcess

    settings = load_settings(ctx.find_root().params.get("config_path"), os.environ)
    process = SchedulerProcess(settings, host=host, port=port, journal=journal)
    process.start()
    on_termination(process.stop.set)
    click.echo(f"scheduler listens on {process.url}")
    if not settings.node_scheduler.nodes:
        click.echo("no node is named in nodeScheduler.nodes: every request will be refused", err=True)
    process.run()
