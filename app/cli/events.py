"""`vmscaler events NAME`: a VM's audit trail; what happened, from and to which size, why, by whom, when."""

from __future__ import annotations

import click

from app.cli.fleet_access import fleet_access
from app.cli.shapes import audit_shape, show_json
from app.cli.tables import Column, show_table
from app.errors import UsageError
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.inspection import MAX_AUDIT, AuditLine, Inspection
from app.services.vm_record import Size
from app.services.wording import ago_text, moment_text, size_text

_COLUMNS = (
    Column("when (utc)"),
    Column("age", is_right=True),
    Column("what"),
    Column("from"),
    Column("to"),
    Column("who"),
    Column("why", is_wide=True),
)


@click.command("events")
@click.argument("name")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_AUDIT),
    default=50,
    show_default=True,
    help="How many entries, the newest.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: vm, events.")
@click.pass_context
def events_command(context: click.Context, name: str, limit: int, as_json: bool) -> None:
    """Show what happened to VM NAME, the newest entry last.

    A VM that is gone is found by its full name, as long as its trail is kept.
    """
    inspection = fleet_access(context).inspection
    key, slot_bytes, lines = _read_trail(inspection, name, limit)
    if as_json:
        show_json({"vm": printable(key), "events": [audit_shape(line, slot_bytes) for line in lines]})
        return
    if not lines:
        click.echo(f"{printable(key)}: nothing has happened yet")
        return
    now = inspection.now()
    show_table(_COLUMNS, [_cells(line, slot_bytes, now) for line in lines])


def _read_trail(inspection: Inspection, name: str, limit: int) -> tuple[VmKey, int | None, list[AuditLine]]:
    try:
        key = inspection.resolve(name)
    except UsageError:
        lines = list(inspection.audit(VmKey(name), limit)) if "/" in name else []
        if not lines:
            raise
        return VmKey(name), inspection.slot_bytes(VmKey(name)), lines
    return key, inspection.slot_bytes(key), list(inspection.audit(key, limit))


def _cells(line: AuditLine, slot_bytes: int | None, now: int) -> tuple[str, ...]:
    at, age = moment_text(line.at_ms, now), ago_text(line.at_ms, now)
    entry = line.entry
    if entry is None:
        return at, age, "unreadable", "", "", "", "what is stored is no audit entry"
    why = f"{entry.why} ({entry.outcome})" if entry.outcome and entry.outcome != entry.kind else entry.why
    sizes = (_size(entry.from_size, slot_bytes), _size(entry.to_size, slot_bytes))
    return at, age, entry.kind.replace("_", " "), *sizes, entry.who, why


def _size(size: Size | None, slot_bytes: int | None) -> str:
    if size is None:
        return ""
    if slot_bytes is None:
        return f"{size.cpu_m / 1000:g} CPU, {size.mem} slots"
    return size_text(size.amount(), slot_bytes)
