"""`vmscaler vm load`: puts a load on a VM of this machine, to see how it is scaled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.cli.amounts import CpuType, MemoryType, SecondsType
from app.cli.vm_local import STATE, local_vms
from app.errors import UsageError

if TYPE_CHECKING:
    from app.adapters.qemu_guest import GuestDaemon, GuestLoad

_ANSWER_LIMIT_S = 10.0
_LONGEST_S = 86_400.0
_DEFAULT_RATE = "12Mi"


@click.command("load")
@click.argument("name")
@click.option("--cpu", "milli_cpu", type=CpuType(), help="CPUs to keep busy, such as 3 or 1500m.")
@click.option("--memory", type=MemoryType(), metavar="SIZE", help="Memory to take, such as 600M.")
@click.option(
    "--growth",
    type=MemoryType(),
    default=_DEFAULT_RATE,
    show_default=True,
    metavar="SIZE",
    help="By how much the memory grows each second.",
)
@click.option(
    "--for", "seconds", type=SecondsType(_LONGEST_S), default="60s", show_default=True, help="How long."
)
@click.option("--stop", "is_stopped", is_flag=True, help="End the load that there is.")
@STATE
def load_command(
    name: str,
    milli_cpu: int | None,
    memory: int | None,
    growth: int,
    seconds: float,
    is_stopped: bool,
    state: Path | None,
) -> None:
    """Put a load on VM NAME, in the place of the one before; without an amount, tell what it has.

    The load is a process in the guest. Memory that the guest does not have in the end gets it killed.
    """
    guest = _guest(state, name)
    if is_stopped:
        if milli_cpu or memory:
            raise UsageError("--stop takes no amount")
        guest.end_load(timeout_s=_ANSWER_LIMIT_S)
        click.echo(f"{name}: no load")
        return
    if not milli_cpu and not memory:
        click.echo(f"{name}: {_told(guest.load(timeout_s=_ANSWER_LIMIT_S))}")
        return
    guest.begin_load(
        milli_cpu=milli_cpu or 0,
        memory=memory or 0,
        rate=growth,
        seconds=max(round(seconds), 1),
        timeout_s=_ANSWER_LIMIT_S,
    )
    parts = [] if not milli_cpu else [f"{milli_cpu / 1000:g} CPU"]
    parts += [] if not memory else [f"{memory / 2**20:.0f} MiB, {growth / 2**20:g} more each second"]
    click.echo(f"{name}: {', '.join(parts)}, for {max(round(seconds), 1)} s")


def _guest(state: Path | None, name: str) -> GuestDaemon:
    vms = local_vms(state)
    directory = vms.find(name)
    if directory.host_port() is None or not directory.is_running():
        raise UsageError(f"{directory.name} is not running")
    return vms.guest(directory)


def _told(load: GuestLoad) -> str:
    if load.is_running:
        return f"loaded for another {load.seconds_left:.0f} s"
    return "no load" if load.ended is None else f"no load; the last one: {load.ended}"
