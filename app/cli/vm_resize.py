"""`vmscaler vm resize NAME`: an operator's word on a VM's size, until it ends or is taken back."""

from __future__ import annotations

import click

from app.cli.amounts import CpuType, MemoryType
from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import FleetAccess, fleet_access, this_author
from app.cli.shapes import intent_shape, show_json
from app.cli.taking_up import show_taken_up, taken_up_shape
from app.core.model import Mode
from app.errors import UsageError
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.fixed_size import FixedSize, check_fixed, read_fixed
from app.services.fleet_view import VmRow
from app.services.instructing import Author, Instruction
from app.services.wording import until_text


@click.command("resize")
@click.argument("name")
@click.option("--cpu", type=CpuType(), help="CPUs: 2, 1.5 or 250m; without it they go on being scaled.")
@click.option("--memory", type=MemoryType(), help="Memory: 4Gi or bytes; without it it goes on being scaled.")
@click.option("--clear", "is_cleared", is_flag=True, help="Take it back: scale by load again.")
@click.option("--for", "duration", metavar="TIME", help="End by itself after 90s, 10m, 1h30m, 2d …")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown to whoever looks at the VM.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def resize_command(
    context: click.Context,
    name: str,
    cpu: int | None,
    memory: int | None,
    is_cleared: bool,
    duration: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Fix the size of VM NAME, whatever its load says.

    The size is within the VM's bounds, and comes as any other: its scheduler must grant it, its monitor must
    allow a smaller one. Waits up to 5 s for the owner; exit status 0 once the wish is recorded.
    """
    fixed = _wanted(cpu, memory, duration, is_cleared=is_cleared)
    for_ms = None if duration is None else parse_duration_ms(duration)
    access = fleet_access(context)
    key = access.inspection.resolve(name)
    author = this_author(reason)
    if fixed is None:
        done = access.instructing.clear_resize(key, access.inspection.bucket_of(key), author)
        notes: list[str] = []
    else:
        done, notes = _fix(access, key, fixed, for_ms, author)
    if not as_json:
        click.echo(_said(done, fixed, access.inspection.now()))
        for note in notes:
            click.echo(f"  {note}")
    _finish(access, done, fixed, notes, as_json=as_json)


def _wanted(
    cpu: int | None, memory: int | None, duration: str | None, *, is_cleared: bool
) -> FixedSize | None:
    """The size; None to take one back. Raises UsageError."""
    if is_cleared:
        if cpu is not None or memory is not None or duration is not None:
            raise UsageError("resize: --clear goes without --cpu, --memory and --for")
        return None
    if cpu is None and memory is None:
        raise UsageError("resize: give --cpu, --memory or both; or --clear")
    return FixedSize(cpu, memory)


def _fix(
    access: FleetAccess, key: VmKey, fixed: FixedSize, for_ms: int | None, author: Author
) -> tuple[Instruction, list[str]]:
    """Check and record it; what was recorded, and what stands in its way. Raises UsageError."""
    row = access.inspection.vm_view(key).row
    try:
        check_fixed(fixed, row.min, row.max, row.slot_bytes)
    except UsageError as err:
        raise UsageError(f"{printable(key)}: {err}") from err
    bucket = access.inspection.bucket_of(key)
    return access.instructing.resize(key, bucket, fixed, for_ms=for_ms, author=author), _obstacles(row)


def _obstacles(row: VmRow) -> list[str]:
    """What keeps the size from being changed for now, in the operator's power to end."""
    found = []
    if row.mode is Mode.OBSERVE:
        found.append("it is only observed, so nothing is done about it: vmscaler vm set NAME --mode scale")
    if row.pause is not None:
        found.append(f"it is paused by {row.pause.author}, and is not resized before: vmscaler resume NAME")
    return found


def _said(done: Instruction, fixed: FixedSize | None, now: int) -> str:
    name = ", ".join(printable(key) for key in done.place)
    if fixed is not None:
        until_ms = done.written[0].until_ms
        until = "until it is cleared" if until_ms is None else until_text(until_ms, now)
        return f"{name}: fixed by hand at {fixed.text()} {until}"
    if not done.lifted:
        return f"{name}: its size is not fixed, nothing to take back"
    before = read_fixed(done.lifted[0])
    was = "" if before is None else f" (was fixed at {before.text()} by {printable(done.lifted[0].author)})"
    return f"{name}: scaled by its load again{was}"


def _finish(
    access: FleetAccess, done: Instruction, fixed: FixedSize | None, notes: list[str], *, as_json: bool
) -> None:
    missing = access.instructing.wait(done)
    if not as_json:
        show_taken_up(done, missing)
        return
    show_json(
        {
            "change": "resize",
            "size": None if fixed is None else {"cpu_m": fixed.cpu, "mem_bytes": fixed.mem_bytes},
            "intent": intent_shape(done.written[0] if done.written else None),
            "lifted": [intent_shape(intent) for intent in done.lifted],
            "notes": notes,
            **taken_up_shape(done, missing),
        }
    )
