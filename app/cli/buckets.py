"""`vmscaler buckets resize N`: another number of buckets for a fleet whose workers are stopped."""

from __future__ import annotations

import click

from app.cli.shapes import show_json
from app.cluster.ring import ANGLES
from app.services.resizing import ResizeOutcome, ResizePlan, Resizing
from app.services.wording import count_text


@click.group("buckets")
def buckets_group() -> None:
    """Change into how many buckets the fleet's VMs are divided."""


@buckets_group.command("resize")
@click.argument("total", type=click.IntRange(1, ANGLES), metavar="N")
@click.option("--yes", "is_meant", is_flag=True, help="Do it; without this only what would be moved is told.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def resize_command(context: click.Context, total: int, is_meant: bool, as_json: bool) -> None:
    """Divide the VMs into N buckets: move states, trails, wishes, stats that wait. Workers must be stopped.

    Killed in the middle, run it again: it goes on where it was. Until it has ended no worker starts.
    """
    resizing, configured = _resizing(context)
    plan = resizing.plan(total)
    outcome = None
    if not as_json:
        _show_plan(plan)
    if is_meant and not plan.is_done:
        outcome = resizing.carry_out(plan, lambda vms: None)
    if as_json:
        show_json(_shape(plan, outcome))
        return
    if outcome is not None:
        _show_outcome(outcome)
    elif not plan.is_done:
        click.echo("nothing was changed: say --yes to move it")
    if configured != total and (outcome is not None or plan.is_done):
        click.echo(
            f"set .ownership.buckets to {total} (it is {configured}) before workers, beat and Flower start"
        )


def _resizing(context: click.Context) -> tuple[Resizing, int]:
    """The service, and the number of buckets of the configuration in force."""
    # Imported here: `--help` needs neither Redis' client nor the configuration.
    from app.bootstrap.owning import build_resizing
    from app.cli.config import settings_in_force

    settings = settings_in_force(context)
    return build_resizing(settings), settings.ownership.buckets


def _show_plan(plan: ResizePlan) -> None:
    if plan.is_done:
        click.echo(f"the fleet has {count_text(plan.new, 'bucket')} already")
        return
    begun = "finishing the change of" if plan.is_unfinished else "changing"
    click.echo(f"{begun} {plan.old} buckets to {plan.new}; to be moved:")
    click.echo(f"  {count_text(plan.vms, 'VM')}, and the trails of {count_text(plan.gone, 'deleted VM')}")
    click.echo(f"  {count_text(plan.intents, 'wish', 'wishes')} of operators (pauses, modes)")
    click.echo(f"  {count_text(plan.stats, 'stat')} that wait for their owners")


def _show_outcome(outcome: ResizeOutcome) -> None:
    dropped = f", {outcome.dropped_stats} unreadable ones dropped" if outcome.dropped_stats else ""
    click.echo(f"moved {count_text(outcome.vms, 'VM')} and {count_text(outcome.stats, 'stat')}{dropped}")
    if outcome.dropped_tasks:
        click.echo(f"dropped {count_text(outcome.dropped_tasks, 'old task')}: the next ticks make them anew")


def _shape(plan: ResizePlan, outcome: ResizeOutcome | None) -> dict[str, object]:
    return {
        "old": plan.old,
        "new": plan.new,
        "unfinished": plan.is_unfinished,
        "to_move": {"vms": plan.vms, "gone": plan.gone, "intents": plan.intents, "stats": plan.stats},
        "moved": None
        if outcome is None
        else {
            "vms": outcome.vms,
            "stats": outcome.stats,
            "dropped_stats": outcome.dropped_stats,
            "dropped_tasks": outcome.dropped_tasks,
        },
    }
