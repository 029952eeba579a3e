"""Rules of order: old tokens have no effect, two holders' effects never interleave, no line is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.chaos.evidence import Effect, Evidence, Findings, LeaseChange
from tests.chaos.spans import Span

OLD_TOKEN = "old token applied"
INTERLEAVED = "two holders interleave"
WRONG_BUCKET = "wrong bucket"
NO_HOLDER = "nobody's effect"
INCOMPLETE = "journal incomplete"

MONITOR_GRACE_S = 1.0
"""How late the look at the leases may be to show a new holder."""

DIAL_S = 5.0
"""A connection begun under a lease may be taken by a slow monitor so much later, before the next holder's."""

BLIND_S = 0.6
"""So long before an outage of Redis a lease may have been taken that nobody saw."""


def check_order(evidence: Evidence, findings: Findings) -> None:
    """All rules of this module; figures: effects and refusals by receiver."""
    for gap in evidence.gaps:
        findings.say(INCOMPLETE, gap)
    in_order = sorted(evidence.effects, key=lambda effect: effect.at)
    _check_names(evidence, in_order, findings)
    _check_tokens(in_order, findings)
    _check_interleaving([effect for effect in in_order if effect.is_applied], findings)
    _check_monitors(evidence, in_order, findings)
    _count(in_order, findings)


def _check_names(evidence: Evidence, effects: Iterable[Effect], findings: Findings) -> None:
    for effect in effects:
        if effect.is_applied and not effect.holder:
            findings.say(
                NO_HOLDER, f"{effect.vm}: {effect.what} at the {effect.receiver} by nobody", effect.line
            )
        vm = evidence.vms.get(effect.vm)
        if vm is not None and effect.bucket != vm.bucket:
            findings.say(WRONG_BUCKET, f"{effect.vm} is in {vm.bucket}, not {effect.bucket}", effect.line)


def _check_tokens(effects: Iterable[Effect], findings: Findings) -> None:
    """At each receiver: once a bucket's newer token was seen, refused requests included, no older applies."""
    newest: dict[tuple[str, str], Effect] = {}
    for effect in effects:
        if effect.token is None:
            continue
        place = effect.receiver, effect.bucket
        before = newest.get(place)
        if before is None or before.token is None or effect.token >= before.token:
            newest[place] = effect
        elif effect.is_applied:
            seen = f"after it had seen {before.token}"
            text = f"{effect.bucket}: the {effect.receiver} applied {effect.token} {seen}"
            findings.say(OLD_TOKEN, text, before.line, effect.line)


def _check_interleaving(effects: Iterable[Effect], findings: Findings) -> None:
    """Over all receivers together: a bucket's applied effects are those of one holder after the other.

    A token belongs to one holder, and what comes later has no lower one.
    """
    last: dict[str, Effect] = {}
    owner: dict[tuple[str, int], Effect] = {}
    for effect in effects:
        if effect.token is None:
            continue
        first = owner.setdefault((effect.bucket, effect.token), effect)
        if first.holder != effect.holder:
            text = f"{effect.bucket}: token {effect.token} is used by {first.holder} and by {effect.holder}"
            findings.say(INTERLEAVED, text, first.line, effect.line)
        before = last.get(effect.bucket)
        if before is not None and before.token is not None and effect.token < before.token:
            earlier = f"after {before.holder} with {before.token}"
            text = f"{effect.bucket}: {effect.holder} acts with {effect.token} {earlier}"
            findings.say(INTERLEAVED, text, before.line, effect.line)
            continue
        last[effect.bucket] = effect


def _check_monitors(evidence: Evidence, effects: Iterable[Effect], findings: Findings) -> None:
    """Monitors are told no token: who speaks to one must be the holder that Redis showed.

    A connection that the earlier holder had begun is none of its words, unless it ends that of the next one.
    """
    history = lease_history(evidence.leases)
    spoke_last: dict[str, str] = {}
    unseen: dict[tuple[str, float], str] = {}
    for effect in effects:
        if effect.receiver != "monitor" or not effect.is_applied or effect.at > evidence.end:
            continue
        changes = history.get(effect.bucket, ())
        holders = holders_around(changes, effect.at, MONITOR_GRACE_S)
        before, spoke_last[effect.vm] = spoke_last.get(effect.vm), effect.holder
        if effect.what == "connected" and before not in holders - {effect.holder}:
            holders = holders | holders_around(changes, effect.at - DIAL_S, DIAL_S)
        outage = next((span for span in evidence.outages if _is_blind(span, effect.at)), None)
        if outage is not None and effect.holder not in holders:
            # Taken after the last look before Redis went: one for each bucket, and the last word then.
            holders = {unseen.setdefault((effect.bucket, outage.begin), effect.holder)}
        elif outage is not None and (effect.bucket, outage.begin) in unseen:
            holders = {unseen[effect.bucket, outage.begin]}
        if holders and effect.holder not in holders:
            others = ", ".join(sorted(holders))
            text = f"{effect.vm}: {effect.holder} spoke to the monitor, the holder was {others}"
            findings.say(INTERLEAVED, text, effect.line)


def _is_blind(outage: Span, at: float) -> bool:
    """Whether nobody could look at the leases from then on."""
    return outage.begin - BLIND_S <= at <= outage.end + MONITOR_GRACE_S


def lease_history(changes: Iterable[LeaseChange]) -> Mapping[str, tuple[LeaseChange, ...]]:
    """Each bucket's changes in order."""
    history: dict[str, list[LeaseChange]] = defaultdict(list)
    for change in sorted(changes, key=lambda change: change.at):
        history[change.bucket].append(change)
    return {bucket: tuple(found) for bucket, found in history.items()}


def holders_around(changes: Iterable[LeaseChange], at: float, grace_s: float) -> set[str]:
    """Who held the bucket at `at`, or was seen to up to `grace_s` later; who held it last while nobody does.

    Empty where nothing was seen before.
    """
    holders: set[str] = set()
    last = ""
    for change in changes:
        if change.at <= at:
            last = change.holder or last
        elif change.at <= at + grace_s and change.holder:
            holders.add(change.holder)
    return holders | ({last} if last else set())


def _count(effects: Iterable[Effect], findings: Findings) -> None:
    counts: dict[str, int] = defaultdict(int)
    for effect in effects:
        counts[f"{effect.receiver}: {effect.what}" + ("" if effect.is_applied else ", refused")] += 1
    for name in sorted(counts):
        findings.figures[f"effects, {name}"] = str(counts[name])
