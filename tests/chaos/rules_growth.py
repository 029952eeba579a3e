"""The rule of growth: nothing is larger in the last minute than in the first."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean, median

from tests.chaos.evidence import Evidence, Findings

GREW = "it grows"

WINDOW_S = 60.0
"""The median of the last so many seconds is compared with the most in the first."""

WAIT = "cpu wait"
"""A gauge that tells how busy the machine was; nothing is judged by it."""

SHORTEST_RUN_S = 150.0
"""A shorter run says nothing of growth."""

ALLOWED = {
    "rss": (1.25, 24 * 2**20),
    "threads": (1.25, 10),
    "files": (1.25, 40),
    "connections": (1.25, 20),
    "keys": (1.25, 100),
    "jobs": (1.25, 60),
}
"""What it may grow by: a factor and an amount, both. Processes warm up (gevent has up to ten threads
for looking names up), and the load differs with time."""


def check_growth(evidence: Evidence, findings: Findings) -> None:
    """Compare each gauge; figures: each, first and last, and how long workers waited for a CPU."""
    waits = [gauge.value for gauge in evidence.gauges if gauge.what == WAIT]
    if waits:
        findings.figures["a worker waited for a CPU"] = f"{mean(waits):.0%} of the time"
    whole = evidence.end - evidence.begin
    if whole < SHORTEST_RUN_S:
        findings.figures["growth"] = f"not judged below {SHORTEST_RUN_S:g} s"
        return
    first: dict[tuple[str, str], list[float]] = defaultdict(list)
    last: dict[tuple[str, str], list[float]] = defaultdict(list)
    for gauge in evidence.gauges:
        if gauge.what == WAIT:
            continue
        if gauge.at <= evidence.begin + WINDOW_S:
            first[gauge.who, gauge.what].append(gauge.value)
        if gauge.at >= evidence.end - WINDOW_S:
            last[gauge.who, gauge.what].append(gauge.value)
    both = first.keys() & last.keys()
    for what in sorted(ALLOWED.keys() - {what for _, what in both}):
        findings.say(GREW, f"{what}: nobody has measured it both in the first minute and in the last")
    for who, what in sorted(both):
        before, after = max(first[who, what]), median(last[who, what])
        factor, amount = ALLOWED[what]
        findings.figures[f"{what} of {who}"] = f"{_show(what, before)} → {_show(what, after)}"
        if after > before * factor and after > before + amount:
            findings.say(GREW, f"{what} of {who}: {_show(what, before)} → {_show(what, after)}")


def _show(what: str, value: float) -> str:
    return f"{value / 2**20:.0f} MiB" if what == "rss" else f"{value:.0f}"
