"""What an operator reads: the schedule, a line per fault, the table at the end, proof of each violation."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.evidence import Evidence, Findings, Line, Violation
from tests.chaos.options import Options
from tests.chaos.schedule import WHAT, Fault

MOST_SHOWN = 5
"""Violations of one rule that are shown; the others are counted."""

MOST_LINE = 400


def say(text: str = "") -> None:
    """One line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_schedule(options: Options, schedule: Sequence[Fault], directory: Path) -> None:
    """What is to come."""
    say(
        f"chaos: seed {options.seed}, {options.seconds:g} s of faults; {options.workers} workers, "
        f"{options.buckets} buckets, {options.vms} VMs; poll period {options.period_s:g} s, "
        f"lease {options.lease_s:g} s"
    )
    say(f"files: {directory}")
    say(f"schedule, {len(schedule)} faults:")
    for fault in schedule:
        say(f"  {fault.text()}")


def say_table(options: Options, evidence: Evidence, findings: Findings, more: dict[str, str]) -> None:
    """The figures, then each violation with its proof."""
    kinds = Counter(fault.kind for fault in evidence.faults)
    rows = {
        "seed": str(options.seed),
        "seconds of faults": f"{options.seconds:g}",
        **{f"faults, {kind.value} ({what})": str(kinds[kind.value]) for kind, what in WHAT.items()},
        **findings.figures,
        **more,
        "violations": str(len(findings.violations)),
    }
    width = max(len(name) for name in rows)
    say()
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
    for span in evidence.left_out:
        begin, end = span.begin - evidence.begin, span.end - evidence.begin
        say(f"  left out: {begin:.1f} to {end:.1f} s: {span.why}")
    _say_violations(findings.violations, evidence.begin)


def _say_violations(violations: Sequence[Violation], zero: float) -> None:
    shown: Counter[str] = Counter()
    for violation in violations:
        shown[violation.rule] += 1
        if shown[violation.rule] > MOST_SHOWN:
            continue
        say()
        say(f"VIOLATION, {violation.rule}: {violation.text}")
        for line in violation.lines:
            say(f"    {_show(line, zero)}")
    for rule, count in shown.items():
        if count > MOST_SHOWN:
            say(f"… and {count - MOST_SHOWN} more: {rule}")


def _show(line: Line, zero: float) -> str:
    """A journal's line, its time also as seconds of the run."""
    at = line.get("mono")
    begin = f"[{float(at) - zero:8.2f} s] " if at is not None else ""
    return (begin + json.dumps(line, default=str))[:MOST_LINE]
