"""The rule of stats: each that was taken is accepted once, or counted, or was in a killed process' hands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from tests.chaos.evidence import Evidence, Findings, Life, StatLine

TWICE = "stat accepted twice"
LOST = "stat lost"
MISCOUNTED = "stats miscounted"
OLD_OWNER = "stat accepted by an earlier owner"

ENDS = ("accepted", "late", "dropped")
"""Fates after which nothing more is owed."""


def check_stats(evidence: Evidence, findings: Findings) -> None:
    """All rules of this module; figures: what became of all stats."""
    if not evidence.pushed:
        return
    fates: dict[tuple[str, int], list[StatLine]] = defaultdict(list)
    for line in evidence.stats:
        fates[line.vm, line.timestamp].append(line)
    outcomes: Counter[str] = Counter()
    taken = {(each.vm, each.timestamp) for each in evidence.pushed if each.status == 202}
    taken |= {key for key, lines in fates.items() if any(line.fate == "taken" for line in lines)}
    for key in sorted(taken):
        outcomes[_judge(evidence, key, fates.get(key, []), findings)] += 1
    for key in sorted(fates.keys() - taken):
        findings.say(
            LOST, f"{key}: the journals know of a stat that nobody took", *[line.line for line in fates[key]]
        )
    findings.figures["stats pushed"] = str(len(evidence.pushed))
    findings.figures["stats taken"] = str(len(taken))
    for outcome, count in sorted(outcomes.items()):
        findings.figures[f"stats, {outcome}"] = str(count)
    _check_owners(evidence.stats, findings)
    _check_counters(evidence, findings)


def _check_owners(lines: Sequence[StatLine], findings: Findings) -> None:
    """A VM's stats are accepted in the order of their timestamps, by one holder of a token after the other.

    In the order of the tokens, not of the lines: whoever was stopped after its commit writes its line late.
    """
    accepted: dict[str, list[StatLine]] = defaultdict(list)
    for line in lines:
        if line.fate != "accepted":
            continue
        if isinstance(line.line.get("token"), int):
            accepted[line.vm].append(line)
        else:
            findings.say(OLD_OWNER, f"{line.vm}: accepted under no token", line.line)
    for vm, found in sorted(accepted.items()):
        found.sort(key=lambda line: int(line.line["token"]))
        for before, line in pairwise(found):
            if before.line["token"] == line.line["token"] and before.holder != line.holder:
                text = f"{vm}: {before.holder} and {line.holder} accepted under the same token"
                findings.say(OLD_OWNER, text, before.line, line.line)
            if line.timestamp < before.timestamp:
                text = f"{vm}: {line.timestamp} was accepted after {before.timestamp}, in the order of tokens"
                findings.say(OLD_OWNER, text, before.line, line.line)


def _judge(evidence: Evidence, key: tuple[str, int], lines: Sequence[StatLine], findings: Findings) -> str:
    """What became of one stat that was taken."""
    counts = Counter(line.fate for line in lines)
    shown = [line.line for line in lines]
    if counts["accepted"] > 1:
        findings.say(TWICE, f"{key}: accepted {counts['accepted']} times", *shown)
        return "accepted twice"
    for fate in ENDS:
        if counts[fate]:
            return fate
    if key in evidence.still_queued:
        return "waiting at the end"
    if not counts["forwarded"] and _is_in_dead_hands(evidence.lives, lines):
        return "in the hands of a killed process"
    findings.say(LOST, f"{key}: taken, and never accepted, counted as late or dropped", *shown)
    return "lost"


def _is_in_dead_hands(lives: Sequence[Life], lines: Sequence[StatLine]) -> bool:
    """Whether the process that took it was killed, or ended by itself, later."""
    for line in lines:
        if line.fate != "taken":
            continue
        for life in lives:
            if line.holder.startswith(f"{life.worker}_") and life.begin <= line.at <= life.end:
                return life.ending in ("killed", "crashed")
    return False


def _check_counters(evidence: Evidence, findings: Findings) -> None:
    """Exactly, per process and moment: what came in is what went out and what is in hand."""
    for each in evidence.counters:
        have = {name.removeprefix("stats_"): value for name, value in each.values.items()}
        if "taken" not in have:
            continue
        came = have["taken"] + have["received"]
        went = sum(have[name] for name in ("accepted", "forwarded", "late", "dropped", "returned", "in_hand"))
        if came != went:
            findings.say(
                MISCOUNTED, f"{each.holder}: {came} stats came, {went} went or are in hand", each.values
            )
            return
