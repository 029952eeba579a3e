"""`vmscaler drain WORKER`: let a worker hand over all its buckets and take none."""

from __future__ import annotations

import click

from app.cli.durations import parse_duration_ms
from app.cli.fleet_access import this_author
from app.cli.shapes import show_json
from app.errors import UsageError
from app.protocols.printable import printable
from app.services.draining import Draining
from app.services.wording import count_text

NOT_DRAINED = 1
"""Exit status when `--wait` ended before the worker had handed over everything."""


@click.command("drain")
@click.argument("worker")
@click.option("--undo", "is_undone", is_flag=True, help="Let it take buckets again.")
@click.option("--wait", "is_waited", is_flag=True, help="Wait until it holds nothing any more.")
@click.option("--timeout", default="5m", show_default=True, metavar="TIME", help="How long --wait waits.")
@click.option("--force", "is_forced", is_flag=True, help="Also where nobody else would take its buckets.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the drain.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def drain_command(
    context: click.Context,
    worker: str,
    is_undone: bool,
    is_waited: bool,
    timeout: str,
    is_forced: bool,
    reason: str,
    as_json: bool,
) -> int:
    """Let WORKER (name, identity or agentID) hand over all its buckets, one at a time, and take none.

    It ends with the process: one that is started again takes buckets, also under the same name.
    """
    if is_undone and (is_waited or is_forced):
        raise UsageError("drain: --undo goes with neither --wait nor --force")
    timeout_s = parse_duration_ms(timeout) / 1000
    draining = _draining(context)
    row = draining.find(worker)
    name = printable(row.name)
    if is_undone:
        was = draining.undo(row)
        told = f"{name} takes buckets again" if was else f"{name}: not drained, nothing to undo"
        _show(as_json, told, {"worker": name, "agent_id": row.agent_id, "draining": False, "changed": was})
        return 0
    held = draining.drain(row, this_author(reason), is_forced=is_forced)
    if not as_json:
        click.echo(f"{name} hands over {count_text(held, 'bucket')} and takes none")
    if is_waited:
        held = draining.wait(row, timeout_s, lambda left: _tell_left(left, as_json))
    is_done = held == 0
    told = f"{name} holds nothing any more" if is_done else f"{name} still holds {count_text(held, 'bucket')}"
    facts = {"worker": name, "agent_id": row.agent_id, "draining": True, "held": held}
    if is_waited or as_json:
        _show(as_json, told, facts)
    return 0 if is_done or not is_waited else NOT_DRAINED


def _draining(context: click.Context) -> Draining:
    given = context.find_object(Draining)
    if given is not None:
        return given
    # Imported here: `--help` needs neither Redis' client nor the configuration.
    from app.bootstrap.owning import build_draining
    from app.cli.config import settings_in_force

    return build_draining(settings_in_force(context))


def _tell_left(left: int, as_json: bool) -> None:
    if left and not as_json:
        click.echo(f"  {count_text(left, 'bucket')} left")


def _show(as_json: bool, told: str, facts: dict[str, object]) -> None:
    if as_json:
        show_json(facts)
    else:
        click.echo(told)
