"""`vmscaler scheduler`: the built-in permit server, one per fleet; `scheduler request` asks one by hand."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

import click

from app.adapters.log_lines import configure_logging
from app.cli.scheduler_request import request_command
from app.cli.server_options import merged, server_options
from app.config import Settings, load_settings
from app.config.security_section import ServerSecurity
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
@server_options
@click.pass_context
def scheduler_command(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    journal: Path | None,
    security: ServerSecurity | None,
) -> None:
    """Serve permits for VMs on nodes of limited capacity, until SIGTERM.

    For platforms that bring no scheduler. The nodes are those of nodeScheduler.nodes; a VM on another one is
    refused with 404. Workers find it in the registry.
    """
    if ctx.invoked_subcommand is None:
        _serve(ctx, host, port, journal, security)
    elif (host, port, journal, security) != (None, None, None, None):
        raise UsageError("scheduler: --host, --port and the like are for serving; a request's own follow it")


def _serve(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    journal: Path | None,
    security: ServerSecurity | None,
) -> None:
    """Run the server until SIGTERM."""
    # Clients are loaded after the patch: their locks and sockets must be cooperative ones.
    from app.web.server import on_hang_up, on_termination, patch_process

    patch_process()
    from app.bootstrap.reloading import build_reloading
    from app.bootstrap.scheduler import SchedulerProcess

    path = ctx.find_root().params.get("config_path")
    settings = load_settings(path, os.environ)
    log_as_configured = partial(_log, logging.getLogger().level)
    log_as_configured(settings)
    rules = merged(security, settings.security.servers.node_scheduler)
    process = SchedulerProcess(settings, host=host, port=port, journal=journal, security=rules)
    process.start()
    on_termination(process.stop.set, settings.shutdown.grace_period_seconds)
    on_hang_up(build_reloading(settings, path, log_as_configured).reload)
    click.echo(f"scheduler listens on {process.url}")
    if not settings.node_scheduler.nodes:
        click.echo("no node is named in nodeScheduler.nodes: every request will be refused", err=True)
    process.run()


def _log(level: int, settings: Settings) -> None:
    """Log as the section `logging` says, and as much as `-v` did where it says nothing."""
    configure_logging(level, settings.logging)
