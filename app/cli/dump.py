"""`vmscaler dump`: the state dumps of the whole fleet, found through the registry."""

from __future__ import annotations

from dataclasses import dataclass

import click

from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import fleet_access
from app.cli.shapes import show_json
from app.errors import UsageError
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.dump_gathering import DumpGathering, FleetDump
from app.services.inspection import Inspection
from app.services.pod_state import utc_text
from app.services.wording import count_text

NOT_ALL = 1
"""Exit status when a worker did not answer, or nobody runs what was asked for."""

MAX_TOLD = 20
"""Workers that are named on the error output; the JSON has all."""


@dataclass(frozen=True, slots=True)
class DumpAccess:
    """What the command reads; tests hand one in as the context's object."""

    inspection: Inspection
    gathering: DumpGathering


@click.command("dump")
@click.option(
    "--vm", "vm_name", metavar="NAME", help="Only this VM: namespace/name, or a name that is unique."
)
@click.option("--bucket", metavar="BUCKET", help="Only the VMs of this bucket: its name or number.")
@click.option("--timeout", default="15s", show_default=True, metavar="DURATION", help="For all workers.")
@click.pass_context
def dump_command(context: click.Context, vm_name: str | None, bucket: str | None, timeout: str) -> int:
    """Print what the workers know of their VMs, as one JSON object.

    Its keys: takenAt, workers (each with stopped, buildInfo and pods, as `GET /` of its dump port gives them)
    and unanswered (workers that told nothing, with the reason). Needs the section dumpState.

    Exit status: 0 all answered; 1 some did not, or nobody has what was asked for.
    """
    access = _access(context)
    timeout_s = parse_duration_ms(timeout) / 1000
    key = None if vm_name is None else find_vm(access.inspection, vm_name)
    wanted = None if bucket is None else find_bucket(access.inspection, bucket)
    agents = access.inspection.agents()
    fleet = access.gathering.gather(agents, timeout_s=timeout_s, vm=key, bucket=wanted)
    show_json(fleet.shape(utc_text(access.inspection.now())))
    tell_unanswered(fleet)
    if not fleet.workers and not fleet.unanswered:
        click.echo("no live worker", err=True)
        return NOT_ALL
    if key is not None and not fleet.vms:
        click.echo(f"no worker that answered runs {printable(key)}", err=True)
        return NOT_ALL
    return NOT_ALL if fleet.unanswered else 0


def find_vm(inspection: Inspection, name: str) -> VmKey:
    """The VM that is meant; one whose whole name is given may be without a record."""
    return VmKey(name) if "/" in name else inspection.resolve(name)


def find_bucket(inspection: Inspection, name: str) -> BucketName:
    """The bucket of this name or number.

    Raises:
        UsageError: there is none.
    """
    names = inspection.buckets
    if BucketName(name) in names:
        return BucketName(name)
    if name.isascii() and name.isdigit() and len(name) < 6 and int(name) < len(names):
        return names[int(name)]
    raise UsageError(f"no bucket {printable(name, 100)}; there are 0 to {len(names) - 1}, as {names[0]}")


def tell_unanswered(fleet: FleetDump) -> None:
    """Name who did not answer on the error output."""
    for row, why in fleet.unanswered[:MAX_TOLD]:
        where = "" if row.dump_address is None else f" at {row.dump_address}"
        click.echo(f"{row.name}{where}: {why}", err=True)
    rest = len(fleet.unanswered) - MAX_TOLD
    if rest > 0:
        click.echo(f"… and {count_text(rest, 'worker')} more", err=True)


def _access(context: click.Context) -> DumpAccess:
    given = context.find_object(DumpAccess)
    if given is not None:
        return given
    # Imported here: `--help` needs neither clients nor the configuration.
    from app.bootstrap.support import build_dump_gathering
    from app.cli.config import settings_in_force

    inspection = fleet_access(context).inspection
    return DumpAccess(inspection, build_dump_gathering(settings_in_force(context)))
