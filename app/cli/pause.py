"""`vmscaler pause` and `vmscaler resume`: no change of size is begun for a VM, or for all.

A paused VM is still polled, decided and explained; a change in flight is finished.
"""

from __future__ import annotations

import click

from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import FleetAccess, fleet_access, this_author
from app.cli.shapes import intent_shape, show_json
from app.cli.taking_up import show_taken_up, taken_up_shape
from app.errors import UsageError
from app.ports.store import Intent
from app.protocols.printable import printable
from app.services.instructing import EVERY_VM, Instruction
from app.services.wording import count_text, until_text

_for_option = click.option(
    "--for", "duration", metavar="TIME", help="End by itself after 90s, 10m, 1h30m, 2d …"
)
_all_option = click.option("--all", "is_all", is_flag=True, help="All VMs, those to come included.")
_reason_option = click.option(
    "--reason", default="", metavar="TEXT", help="Why; shown to whoever looks at the VM."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command("pause")
@click.argument("name", required=False)
@_all_option
@_for_option
@_reason_option
@_json_option
@click.pass_context
def pause_command(
    context: click.Context, name: str | None, is_all: bool, duration: str | None, reason: str, as_json: bool
) -> None:
    """Begin no change of size for VM NAME, or for all.

    Waits up to 5 s for the owners; exit status 0 once the pause is recorded.
    """
    _check_target(name, is_all, "pause")
    for_ms = None if duration is None else parse_duration_ms(duration)
    access = fleet_access(context)
    author = this_author(reason)
    if name is None:
        access.inspection.check_total()
        done = access.instructing.pause_all(access.inspection.buckets, for_ms=for_ms, author=author)
    else:
        key = access.inspection.resolve(name)
        bucket = access.inspection.bucket_of(key)
        done = access.instructing.pause(key, bucket, for_ms=for_ms, author=author)
    if not as_json:
        click.echo(f"paused {_target(done)}{_details(done.written[0], access.inspection.now())}")
    _finish(access, done, as_json=as_json, change="pause")


@click.command("resume")
@click.argument("name", required=False)
@_all_option
@_reason_option
@_json_option
@click.pass_context
def resume_command(
    context: click.Context, name: str | None, is_all: bool, reason: str, as_json: bool
) -> None:
    """Let VM NAME be scaled again, or all.

    A single VM is resumed also while all others stay paused. Waits up to 5 s for the owners.
    """
    _check_target(name, is_all, "resume")
    access = fleet_access(context)
    author = this_author(reason)
    if name is None:
        access.inspection.check_total()
        done = access.instructing.resume_all(access.inspection.buckets, author)
    else:
        key = access.inspection.resolve(name)
        done = access.instructing.resume(key, access.inspection.bucket_of(key), author)
    if not as_json:
        _say_resumed(done, name is None, access.inspection.now())
    _finish(access, done, as_json=as_json, change="resume")


def _check_target(name: str | None, is_all: bool, verb: str) -> None:
    if name is not None and is_all:
        raise UsageError(f"{verb}: either a VM or --all, not both")
    if name is None and not is_all:
        raise UsageError(f"{verb}: name a VM, or say --all")


def _say_resumed(done: Instruction, is_all: bool, now: int) -> None:
    target = "all VMs" if is_all else ", ".join(printable(key) for key in done.place)
    if not done.lifted:
        click.echo(f"{target}: not paused, nothing to resume" if not is_all else "no VM is paused")
        return
    click.echo(f"resumed {target}")
    for intent in done.lifted:
        whom = "all VMs" if intent.target == EVERY_VM else printable(intent.target)
        click.echo(f"  was paused: {whom}{_details(intent, now)}, by {printable(intent.author)}")


def _finish(access: FleetAccess, done: Instruction, *, as_json: bool, change: str) -> None:
    missing = access.instructing.wait(done)
    if not as_json:
        show_taken_up(done, missing)
        return
    show_json(
        {
            "change": change,
            "intent": intent_shape(done.written[0] if done.written else None),
            "lifted": [intent_shape(intent) for intent in done.lifted],
            **taken_up_shape(done, missing),
        }
    )


def _target(done: Instruction) -> str:
    if done.written[0].target == EVERY_VM:
        return f"all VMs ({count_text(len(done.place), 'VM')} now)"
    return printable(done.written[0].target)


def _details(intent: Intent, now: int) -> str:
    until = "until it is resumed" if intent.until_ms is None else until_text(intent.until_ms, now)
    return f" {until}" + (f": {printable(intent.reason)}" if intent.reason else "")
