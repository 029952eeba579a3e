"""`vmscaler config check|show|import|reference`, and how other commands get the configuration in force."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial

import click

from app.config import Settings, build_settings, load_settings
from app.config.agent_import import config_of, import_agent_config
from app.config.document import parse_document, read_text
from app.config.reference import reference_page
from app.config.showing import effective_values, effective_yaml, values_yaml
from app.errors import ConfigurationError
from app.protocols.printable import printable


def settings_in_force(context: click.Context) -> Settings:
    """The configuration that `--config`, `CONFIG_PATH` and the environment lead to.

    Raises:
        ConfigurationError: it is wrong, or can't be read.
    """
    return load_settings(context.find_root().params.get("config_path"), os.environ)


@click.group("config")
def config_group() -> None:
    """Check and show the configuration."""


@config_group.command("check")
@click.argument("file", metavar="FILE")
def check_command(file: str) -> int:
    """Check FILE whole and list all mistakes.

    The environment counts as it does for a worker: with platform neonvm K8S_POD_IP must be set.
    Exit status: 0 all is well, 1 there are mistakes, 2 the file can't be read.
    """
    text = read_text(file)
    try:
        settings = build_settings(parse_document(text, file), os.environ)
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(problem)
        return 1
    click.echo(f"{printable(file)}: ok")
    for note in _notes(settings):
        click.echo(f"note: {note}", err=True)
    return 0


def _notes(settings: Settings) -> list[str]:
    """What would keep a process from starting here and now, though the file is right."""
    notes = []
    if settings.platform.kind == "qemu":
        notes.append(f".platform.kind: {settings.platform.kind} is not in this version; use sim")
    reads: list[Callable[[], object]] = [settings.redis.check_files, settings.platform.token]
    if settings.stats.enabled:
        reads.append(partial(settings.stats.secret, settings.env.stats_secret))
    for read in reads:
        try:
            read()
        except ConfigurationError as error:
            notes += error.problems
    return notes


@config_group.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: values, sources.")
@click.pass_context
def show_command(context: click.Context, as_json: bool) -> None:
    """Print the values in force and where each comes from; secrets are shown as ***."""
    settings = settings_in_force(context)
    if not as_json:
        click.echo(effective_yaml(settings), nl=False)
        return
    values, sources = effective_values(settings)
    click.echo(json.dumps({"values": values, "sources": sources}, indent=2))


@config_group.command("import")
@click.argument("file", metavar="FILE")
def import_command(file: str) -> int:
    """Bring FILE, the configuration of a NeonVM autoscaler-agent, to ours, and print it as YAML.

    FILE is the agent's JSON file as it is, or the ConfigMap that holds it. What has no place here is named on
    the error output. Exit status: 0 what is printed is valid, 1 it is not, 2 the file can't be read.
    """
    document = config_of(parse_document(read_text(file), file), file)
    imported = import_agent_config(document)
    for path, why in imported.left_out:
        click.echo(f"left out: {printable(path)}: {why}", err=True)
    click.echo(values_yaml(imported.values), nl=False)
    try:
        build_settings(imported.values, {"K8S_POD_IP": "127.0.0.1"}, source=printable(file))
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        return 1
    return 0


@config_group.command("reference")
def reference_command() -> None:
    """Print the reference of all settings, as in docs/configuration.md."""
    click.echo(reference_page(), nl=False)
