"""`vmscaler explain NAME`: the last decision; inputs, arithmetic, what holds it back and until when."""

from __future__ import annotations

import click

from app.cli.fleet_access import fleet_access
from app.cli.shapes import lease_shape, show_json, size_shape, vm_shape
from app.cli.tables import show_facts
from app.cli.vm_texts import (
    by_hand_text,
    last_text,
    mode_text,
    operation_text,
    owner_text,
    pause_text,
    sample_text,
)
from app.protocols.printable import printable
from app.services.explanation import VmExplanation
from app.services.wording import ago_text, moment_text, size_text


@click.command("explain")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def explain_command(context: click.Context, name: str, as_json: bool) -> None:
    """Say how the last decision about VM NAME came about."""
    inspection = fleet_access(context).inspection
    explanation = inspection.explain(inspection.resolve(name))
    if as_json:
        show_json(explanation_shape(explanation))
    else:
        _show(explanation)


def explanation_shape(explanation: VmExplanation) -> dict[str, object]:
    """The JSON: the VM as in `vm show`, and how its desired size came about."""
    row, goal, slot = explanation.row, explanation.goal, explanation.row.slot_bytes
    return {
        "now_ms": explanation.now_ms,
        "decided_ms": explanation.decided_ms,
        **vm_shape(row),
        "lines": [printable(line) for line in explanation.lines],
        "obstacles": [printable(text) for text in explanation.obstacles],
        "said_then": [printable(text) for text in explanation.said_then],
        "targets": {
            "load_average_fraction": explanation.scaling.load_average_fraction_target,
            "memory_usage_fraction": explanation.scaling.memory_usage_fraction_target,
        },
        "goal": {
            "unit": size_shape(goal.unit, slot),
            "cpu_units": goal.cpu_units,
            "mem_units": goal.mem_units,
            "requested_units": goal.requested_units,
            "requested_until_ms": goal.requested_until,
            "denied_units": goal.denied_units,
            "denied_until_ms": goal.denied_until,
            "units": goal.goal,
            "size": size_shape(goal.resources, slot),
        },
        "in_use": size_shape(explanation.use, slot),
        "permit": size_shape(explanation.permit, slot),
        "approved": size_shape(explanation.approved, slot),
        "look_again_ms": explanation.look_again_ms,
        "migrating": explanation.is_migrating,
        "not_taken_up": [printable(text) for text in explanation.waiting],
        "lease": None if explanation.lease is None else lease_shape(explanation.lease),
    }


def _show(explanation: VmExplanation) -> None:
    row, now = explanation.row, explanation.now_ms
    click.echo(f"{printable(row.key)}  {_change_text(explanation)}")
    click.echo(f"  {printable(row.why)}")
    decided = moment_text(explanation.decided_ms, now)
    click.echo(f"\ndecided {ago_text(explanation.decided_ms, now)}, at {decided} UTC")
    for line in explanation.lines:
        click.echo(f"  {printable(line, 300)}")
    for text in explanation.obstacles:
        click.echo(f"  held back: {printable(text)}")
    for text in explanation.said_then:
        click.echo(f"  over by now: {printable(text)}")
    click.echo()
    show_facts(_facts(explanation), indent="  ")


def _change_text(explanation: VmExplanation) -> str:
    row = explanation.row
    real = size_text(row.real_size, row.slot_bytes)
    if row.desired is None:
        return f"{real}, nothing decided yet"
    if row.desired == row.real_size:
        return f"{real}, as desired"
    return f"{real} → {size_text(row.desired, row.slot_bytes)}"


def _facts(explanation: VmExplanation) -> list[tuple[str, str]]:
    row, now, slot = explanation.row, explanation.now_ms, explanation.row.slot_bytes
    asked = ""
    if row.observed is not None and row.observed != row.use:
        asked = f"asked for {size_text(row.use, slot)}, observed {size_text(row.observed, slot)}"
    return [
        ("status", f"{row.status}: {row.status_reason}" if row.status_reason else row.status),
        ("mode", mode_text(row)),
        ("paused", pause_text(row.pause, now)),
        ("by hand", by_hand_text(row.fixed, now)),
        ("migrating", "yes: its size must not change" if explanation.is_migrating else ""),
        ("not taken up", "; ".join(printable(text) for text in explanation.waiting)),
        ("sample", sample_text(row, now)),
        ("platform", asked),
        ("operation", operation_text(row.operation, slot, now)),
        ("last", last_text(row.last, slot, now)),
        ("owner", owner_text(row, explanation.lease)),
    ]
