"""Rules of time: every VM is polled again, every bucket has a holder again, soon enough after a fault."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.evidence import Evidence, FaultDone, Findings, LeaseChange
from tests.chaos.rules_order import holders_around, lease_history
from tests.chaos.spans import overlap

NOT_POLLED = "not polled in time"
NO_NEW_LEASE = "no new lease in time"
LEFT_OUT = "too much left out"

LOOK_S = 0.6
"""Most that the look at the leases may be late: it looks four times a second."""

AROUND_S = 1.5
"""A worker that took the bucket so shortly after its fault began counts as its holder: it was under way."""


def check_liveness(evidence: Evidence, findings: Findings) -> None:
    """All rules of this module; figures: the longest gaps, and how much was left out."""
    whole = evidence.end - evidence.begin
    share = overlap(evidence.left_out, evidence.begin, evidence.end) / whole if whole > 0 else 1.0
    findings.figures["left out"] = f"{share:.1%} of {whole:.0f} s"
    if share > evidence.limits.most_left_out:
        most = evidence.limits.most_left_out
        findings.say(LEFT_OUT, f"{share:.1%} of the run is left out; above {most:.0%} it proves nothing")
    history = lease_history(evidence.leases)
    _check_polls(evidence, history, findings)
    _check_leases(evidence, history, findings)


def _check_polls(
    evidence: Evidence, history: Mapping[str, Sequence[LeaseChange]], findings: Findings
) -> None:
    polls: dict[str, list[float]] = defaultdict(list)
    for poll in evidence.polls:
        polls[poll.vm].append(poll.at)
    hits = _hits(evidence, history)
    longest = longest_after_crash = longest_of_terms = 0.0
    for key, vm in sorted(evidence.vms.items()):
        for begin, end in _gaps(sorted(polls[key]), evidence.begin, evidence.end):
            length = end - begin - overlap(evidence.left_out, begin, end)
            longest = max(longest, length)
            inside = [(at, kind) for at, kind in hits.get(vm.bucket, ()) if begin < at < end]
            crashes = [at for at, _ in inside]
            if crashes and all(kind == "term" for _, kind in inside):
                longest_of_terms = max(longest_of_terms, length)
            elif crashes:
                since = end - crashes[-1] - overlap(evidence.left_out, crashes[-1], end)
                longest_after_crash = max(longest_after_crash, since)
            if length > evidence.limits.poll_s and not _is_excused(evidence, crashes, begin, end):
                text = (
                    f"{key} ({vm.bucket}): no poll for {length:.1f} s, from {begin - evidence.begin:.1f} to "
                    f"{end - evidence.begin:.1f} s of the run, left-out spans not counted; "
                    f"{evidence.limits.poll_s:g} s are allowed after a crash of its owner"
                )
                findings.say(
                    NOT_POLLED, text, *_around(history.get(vm.bucket, ()), begin, end, evidence.begin)
                )
    findings.figures["longest gap between two polls of a VM"] = f"{longest:.1f} s"
    findings.figures["longest gap between two polls around a SIGTERM"] = f"{longest_of_terms:.1f} s"
    findings.figures["longest time from a crash to the next poll"] = f"{longest_after_crash:.1f} s"


def _is_excused(evidence: Evidence, crashes: Sequence[float], begin: float, end: float) -> bool:
    """Whether the time ran anew: from a later crash of the owner of that moment, or from Redis' return."""
    limits = evidence.limits
    starts = [(at, limits.poll_s) for at in crashes]
    starts += [(outage.end, limits.redis_back_s) for outage in evidence.outages if begin < outage.end < end]
    return any(end - at - overlap(evidence.left_out, at, end) <= limit for at, limit in starts)


def _gaps(times: Sequence[float], begin: float, end: float) -> Iterator[tuple[float, float]]:
    inside = [at for at in times if begin < at < end]
    yield from zip([begin, *inside], [*inside, end], strict=True)


def _hits(
    evidence: Evidence, history: Mapping[str, Sequence[LeaseChange]]
) -> Mapping[str, tuple[tuple[float, str], ...]]:
    """By bucket: when which fault befell the worker that held it, or was about to."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for fault in sorted(evidence.faults, key=lambda fault: fault.begin):
        if not fault.worker:
            continue
        for bucket, changes in history.items():
            holders = holders_around(changes, fault.begin, AROUND_S)
            if any(holder.startswith(f"{fault.worker}_") for holder in holders):
                found[bucket].append((fault.begin, fault.kind))
    return {bucket: tuple(times) for bucket, times in found.items()}


def _check_leases(
    evidence: Evidence, history: Mapping[str, Sequence[LeaseChange]], findings: Findings
) -> None:
    """After SIGKILL each lease of the dead is another's within its duration and a second."""
    longest = 0.0
    for fault in evidence.faults:
        if fault.kind != "kill":
            continue
        for bucket, changes in sorted(history.items()):
            held = _held_by(changes, fault)
            if held is None:
                continue
            new = next(
                (change for change in changes if change.at > fault.begin and change.token > held.token), None
            )
            until = evidence.end if new is None else new.at
            waited = until - fault.begin - overlap(evidence.left_out, fault.begin, until)
            has_outage = any(outage.begin < until and outage.end > fault.begin for outage in evidence.outages)
            if has_outage or (new is None and waited < evidence.limits.take_over_s + LOOK_S):
                continue
            longest = max(longest, waited)
            if waited > evidence.limits.take_over_s + LOOK_S:
                text = f"{bucket}: {waited:.1f} s after the {fault.text} there was no new lease"
                lines = _around(changes, fault.begin, until, evidence.begin)
                findings.say(NO_NEW_LEASE, text, *lines)
    findings.figures["longest time from SIGKILL to the new lease"] = f"{longest:.1f} s"


def _held_by(changes: Sequence[LeaseChange], fault: FaultDone) -> LeaseChange | None:
    """The lease that the killed worker held at its end, as Redis showed then."""
    place = bisect_right(changes, fault.begin, key=lambda change: change.at)
    last = changes[place - 1] if place else None
    return last if last is not None and last.holder.startswith(f"{fault.worker}_") else None


def _around(changes: Sequence[LeaseChange], begin: float, end: float, zero: float) -> list[dict[str, object]]:
    """The bucket's leases before, in and after a gap, as lines to show; times from the run's begin."""
    first = max(bisect_right(changes, begin, key=lambda change: change.at) - 1, 0)
    last = bisect_right(changes, end, key=lambda change: change.at) + 1
    return [
        {"at_s": round(each.at - zero, 2), "bucket": each.bucket, "holder": each.holder, "token": each.token}
        for each in changes[first:last][:12]
    ]
