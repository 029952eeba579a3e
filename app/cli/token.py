"""`vmscaler token KEY`: the token with which a VM pushes its stats."""

from __future__ import annotations

import click

from app.errors import UsageError
from app.protocols.printable import printable
from app.protocols.stat_tokens import vm_token
from app.protocols.stats import key_of


@click.command("token")
@click.argument("key", metavar="KEY")
@click.pass_context
def token_command(context: click.Context, key: str) -> None:
    """Print the token of the VM KEY (namespace/name), good for pushing this VM's stats and no other's.

    It is made of the key and the fleet's secret (`stats.secretFile`, or VMSCALER_STATS_SECRET), so that it is
    the same each time; whether there is such a VM is not looked up. Another secret makes all tokens invalid.
    """
    # Imported here: reading settings is for the command itself, not for its help.
    from app.cli.config import settings_in_force

    if key_of({"key": key}) is None:
        raise UsageError(f"{printable(ascii(key), 100)} is not namespace/name")
    settings = settings_in_force(context)
    click.echo(vm_token(settings.stats.secret(settings.env.stats_secret), key))
