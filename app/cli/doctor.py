"""`vmscaler doctor`: is everything around us as it must be, and what to do where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from app.cli.shapes import show_json
from app.protocols.printable import printable
from app.services.checkup import Finding, Verdict
from app.services.wording import count_text

HAS_PROBLEMS = 1
"""Exit status where anything does not work; warnings alone leave 0."""

MAX_TEXT = 600
"""Characters of a text; a right that is missing takes 200."""


@click.command("doctor")
@click.option("--vm", metavar="NS/NAME", help="Try the servers of this VM; else of the first of ours.")
@click.option(
    "--ask-monitor",
    is_flag=True,
    help="Send the VM's monitor a health check: that ends its agent's connection, which dials again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def doctor_command(context: click.Context, vm: str | None, ask_monitor: bool, as_json: bool) -> int:
    """Look at Redis, the platform, the scheduler, a VM and the clocks; say what to do.

    Changes nothing. Ends within some 10 seconds, whatever does not answer. Exit status 0: no problem
    (warnings may be there), 1: a problem, 2: the configuration can't be read.
    """
    # Imported here: `--help` needs neither the clients nor the configuration.
    from app.bootstrap.doctor import examine
    from app.cli.config import settings_in_force

    findings = examine(settings_in_force(context), vm, asks_monitor=ask_monitor)
    has_problems = any(finding.verdict is Verdict.PROBLEM for finding in findings)
    if as_json:
        show_json({"ok": not has_problems, "findings": [_shape(finding) for finding in findings]})
    else:
        _show(findings)
    return HAS_PROBLEMS if has_problems else 0


def _shape(finding: Finding) -> dict[str, str]:
    return {
        "about": finding.about,
        "verdict": finding.verdict.value,
        "text": printable(finding.text, MAX_TEXT),
        "next": finding.next_step,
    }


def _show(findings: Sequence[Finding]) -> None:
    width = max(len(verdict) for verdict in Verdict)
    for finding in findings:
        text = printable(finding.text, MAX_TEXT)
        click.echo(f"{finding.verdict.value.ljust(width)}  {finding.about}: {text}")
        if finding.next_step:
            click.echo(f"{' ' * width}  → {printable(finding.next_step, MAX_TEXT)}")
    counts = Counter(finding.verdict for finding in findings)
    if not counts[Verdict.PROBLEM] and not counts[Verdict.WARNING]:
        click.echo("all is well")
        return
    told = [count_text(counts[Verdict.PROBLEM], "problem"), count_text(counts[Verdict.WARNING], "warning")]
    click.echo(", ".join(told))
