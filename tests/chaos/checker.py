"""Judges a run by its journals. Pure: evidence in, violations and figures out."""

from __future__ import annotations

from tests.chaos.evidence import Evidence, Findings
from tests.chaos.rules_growth import check_growth
from tests.chaos.rules_liveness import check_liveness
from tests.chaos.rules_order import check_order
from tests.chaos.rules_sizes import check_sizes
from tests.chaos.rules_stats import check_stats

NOTHING_HAPPENED = "nothing happened"


def check(evidence: Evidence) -> Findings:
    """All rules; a run in which nothing was done proves nothing and is a violation."""
    findings = Findings()
    check_order(evidence, findings)
    check_liveness(evidence, findings)
    check_sizes(evidence, findings)
    check_stats(evidence, findings)
    check_growth(evidence, findings)
    receivers = {effect.receiver for effect in evidence.effects if effect.is_applied}
    for receiver in sorted({"platform", "scheduler", "monitor"} - receivers):
        findings.say(NOTHING_HAPPENED, f"not one effect reached the {receiver}")
    return findings
