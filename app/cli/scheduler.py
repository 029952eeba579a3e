"""`vmscaler scheduler`: the built-in permit server, one per fleet."""

from __future__ import annotations

import os

import click

from app.config import load_settings


@click.command("scheduler")
@click.option("--host", metavar="ADDRESS", help="Listen here; else nodeScheduler.host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen on this port, 0 for a free one; else nodeScheduler.port.",
)
@click.pass_context
def scheduler_command(ctx: click.Context, host: str | None, port: int | None) -> None:
    """Serve permits for VMs on nodes of limited capacity, until SIGTERM.

    For platforms that bring no scheduler. The nodes are those of nodeScheduler.nodes; a VM on another one is
    refused with 404. Workers find it in the registry.
    """
    # Clients are loaded after the patch: their locks and sockets must be cooperative ones.
    from app.web.server import on_termination, patch_process

    patch_process()
    from app.bootstrap.scheduler import SchedulerProcess

    settings = load_settings(ctx.find_root().params.get("config_path"), os.environ)
    process = SchedulerProcess(settings, host=host, port=port)
    process.start()
    on_termination(process.stop.set)
    click.echo(f"scheduler listens on {process.url}")
    if not settings.node_scheduler.nodes:
        click.echo("no node is named in nodeScheduler.nodes: every request will be refused", err=True)
    process.run()
