"""`vmscaler leases`: who holds which bucket, since when, under which token; and why nobody does."""

from __future__ import annotations

import click

from app.cli.shapes import lease_shape, show_json
from app.cli.tables import Column, show_table
from app.protocols.printable import printable
from app.services.lease_listing import LeaseLine, LeaseListing, LeaseTable
from app.services.wording import ago_text, count_text, span_text

_COLUMNS = (
    Column("bucket"),
    Column("holder"),
    Column("token", is_right=True),
    Column("held for", is_right=True),
    Column("ends in", is_right=True),
    Column("vms", is_right=True),
    Column("last tick", is_right=True),
    Column("note", is_wide=True),
)

_NOBODY = "-"


@click.command("leases")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: now_ms, silence_ms, leases.")
@click.pass_context
def leases_command(context: click.Context, as_json: bool) -> None:
    """Show each bucket: holder, fencing token, age and rest of the lease, VMs, last tick.

    For a bucket that nobody holds the reason is told. Times are by Redis' clock.
    """
    table = _listing(context).table()
    if as_json:
        show_json(lease_table_shape(table))
        return
    held = sum(line.lease.holder is not None for line in table.lines)
    click.echo(f"{held} of {count_text(len(table.lines), 'bucket')} held")
    if table.silence_ms:
        click.echo(
            f"nobody may take a bucket for another {span_text(table.silence_ms)}: Redis has started, changed "
            "its master or lost keys, or a Lease object is missing"
        )
    show_table(_COLUMNS, [_cells(line, table.now_ms) for line in table.lines])


def _listing(context: click.Context) -> LeaseListing:
    given = context.find_object(LeaseListing)
    if given is not None:
        return given
    # Imported here: `--help` needs neither Redis' client nor the configuration.
    from app.bootstrap.owning import build_lease_listing
    from app.cli.config import settings_in_force
    from app.cli.fleet_access import fleet_access

    fleet_access(context).inspection.check_total()
    return build_lease_listing(settings_in_force(context))


def _cells(line: LeaseLine, now: int) -> tuple[str, ...]:
    lease = line.lease
    return (
        lease.bucket,
        _NOBODY if lease.holder is None else printable(lease.holder.identity, 80),
        str(lease.token) if lease.token else "",
        span_text(now - lease.acquired_ms) if lease.acquired_ms else "",
        span_text(lease.remaining_ms) if lease.remaining_ms else "",
        str(line.vms),
        ago_text(line.last_tick_ms, now),
        line.note,
    )


def lease_table_shape(table: LeaseTable) -> dict[str, object]:
    """The table as `--json` prints it."""
    return {
        "now_ms": table.now_ms,
        "silence_ms": table.silence_ms,
        "leases": [
            {
                **lease_shape(line.lease),
                "age_ms": table.now_ms - line.lease.acquired_ms if line.lease.acquired_ms else None,
                "vms": line.vms,
                "last_tick_ms": line.last_tick_ms,
                "note": line.note,
            }
            for line in table.lines
        ],
    }
