"""Whether the owners have taken up what a command has recorded."""

from __future__ import annotations

from collections.abc import Sequence

import click

from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.instructing import Instruction
from app.services.wording import count_text

_MAX_NAMED = 5
"""VMs named on the screen; `--json` names all."""


def show_taken_up(done: Instruction, missing: Sequence[VmKey]) -> None:
    """Say it in a line."""
    if not done.place:
        click.echo("recorded; there is no VM at the moment")
    elif not missing:
        click.echo(
            "taken up by the owner" if len(done.place) == 1 else f"taken up for all {len(done.place)} VMs"
        )
    elif len(missing) == len(done.place):
        click.echo("recorded; no owner has taken it up yet")
    else:
        named = ", ".join(printable(key) for key in missing[:_MAX_NAMED])
        more = " …" if len(missing) > _MAX_NAMED else ""
        click.echo(
            f"taken up for {len(done.place) - len(missing)} of {count_text(len(done.place), 'VM')}; "
            f"recorded, not taken up yet: {named}{more}"
        )


def taken_up_shape(done: Instruction, missing: Sequence[VmKey]) -> dict[str, object]:
    """The same as JSON: `taken_up` (all of them), `vms` concerned, `waiting` for their owners."""
    return {
        "taken_up": not missing,
        "vms": [printable(key) for key in sorted(done.place)],
        "waiting": [printable(key) for key in sorted(missing)],
    }
