"""What needs a look in a fleet: nobody at work, buckets without holder, stopped ticks, VMs in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.model import Millis, Mode
from app.ports.store import LeaseRow
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow
from app.services.fleet_view import Problem, VmRow
from app.services.wording import ago_text, count_text, size_text, span_text

MAX_LISTED = 10
"""VMs named one by one for a kind of problem; the rest is a number."""

MANY_FAILURES = 3
"""Resizes of a VM that fail in a row before an operator should look; one or two happen."""

_MISSED_PERIODS = 4
"""Polls in a row that may fail to arrive before a sample counts as old."""

_LEAST_SILENCE_MS = 5_000
"""However short the period, a pause of this length is no alarm: a take-over lasts as long."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read of the fleet, before judging it.

    Attributes:
        total: number of buckets by the configuration; `stored_total` is that in Redis, None before any start.
        unreadable: (VM, what is wrong) of records that can't be read.
        period_ms: time between two polls of a VM.
        silence_ms: for so long nobody may take a bucket, since Redis has started or lost its keys.
        is_read_only: Redis is a replica, to which no worker can write.
        lease_problem: why it is not known who holds which bucket; "" where it is.
    """

    now: Millis
    total: int
    stored_total: int | None
    leases: Sequence[LeaseRow]
    agents: Sequence[AgentRow]
    rows: Sequence[VmRow]
    unreadable: Sequence[tuple[str, str]]
    last_poll_ms: int | None
    period_ms: int
    silence_ms: int = 0
    is_read_only: bool = False
    lease_problem: str = ""

    @property
    def silence_limit_ms(self) -> int:
        """How old a sample, or the fleet's last poll, may be."""
        return max(_MISSED_PERIODS * self.period_ms, _LEAST_SILENCE_MS)


def find_problems(seen: Seen) -> tuple[Problem, ...]:
    """All that needs a look, the gravest first."""
    found = [*_store(seen), *_ownership(seen), *_rhythm(seen), *_scheduler(seen)]
    found += _limited([Problem("unreadable", key, what) for key, what in seen.unreadable])
    objects = sorted({pair for agent in seen.agents for pair in agent.unreadable})
    found += _limited([Problem("unreadable-vm", key, f"{key}: {what}") for key, what in objects])
    for code, of_kind in _vm_troubles(seen).items():
        found += _limited([Problem(code, row.key, text) for row, text in of_kind])
    for agent in seen.agents:
        who = f"{agent.kind} {agent.name}"
        found += [Problem("agent", agent.name, f"{who}: {text}") for text in agent.problems]
    return tuple(found)


def _store(seen: Seen) -> list[Problem]:
    if not seen.is_read_only:
        return []
    told = (
        "Redis is a read-only replica: no worker can renew a lease or write a state, beat stands still; "
        "make it the master, or let redis.url name the master"
    )
    return [Problem("redis-read-only", "", told)]


def _ownership(seen: Seen) -> list[Problem]:
    if seen.stored_total is not None and seen.stored_total != seen.total:
        told = f"the configuration says {count_text(seen.total, 'bucket')}, the fleet has {seen.stored_total}"
        return [Problem("bucket-total", "", told)]
    if not any(agent.kind == "worker" for agent in seen.agents):
        return [Problem("no-workers", "", "no live worker: nothing is polled, nothing is scaled")]
    if seen.lease_problem:
        told = f"who holds which bucket can't be read: {printable(seen.lease_problem, 400)}"
        return [Problem("leases-unknown", "", told)]
    workers = [agent for agent in seen.agents if agent.kind == "worker"]
    free = [row.bucket for row in seen.leases if row.holder is None]
    if not free:
        return []
    if all(agent.is_draining for agent in workers):
        told = f"all workers are drained, so nobody owns {len(free)} of {len(seen.leases)} buckets"
        return [Problem("all-drained", "", told)]
    named = ", ".join(free[:3]) + (" …" if len(free) > 3 else "")
    told = f"{len(free)} of {len(seen.leases)} buckets have no holder: {named}"
    if seen.silence_ms:
        left = span_text(seen.silence_ms)
        told += f"; nobody takes one for another {left}, since Redis has started or lost keys"
        told += ", or Lease objects are missing"
    return [Problem("free-buckets", "", told)]


def _rhythm(seen: Seen) -> list[Problem]:
    found = []
    if not any(agent.kind == "beat" for agent in seen.agents):
        found.append(Problem("no-beat", "", "no live beat: nothing gives the rhythm of the polls"))
    if seen.last_poll_ms is not None and seen.now - seen.last_poll_ms > seen.silence_limit_ms:
        age = span_text(seen.now - seen.last_poll_ms)
        told = f"no VM has been polled for {age}: ticks or polls have stopped"
        found.append(Problem("ticks-stopped", "", told))
    return found


def _scheduler(seen: Seen) -> list[Problem]:
    cut_off = [row for row in seen.rows if row.mode is Mode.SCALE and not row.has_scheduler]
    if not cut_off:
        return []
    who = printable(cut_off[0].key) if len(cut_off) == 1 else count_text(len(cut_off), "VM")
    return [Problem("no-scheduler", "", f"no scheduler in reach for {who}: no upscale until there is one")]


def _vm_troubles(seen: Seen) -> dict[str, list[tuple[VmRow, str]]]:
    troubles: dict[str, list[tuple[VmRow, str]]] = {}
    for row in seen.rows:
        name = printable(row.key)
        if row.status != "ok":
            why = row.status_reason or "no reason given"
            troubles.setdefault(f"vm-{row.status}", []).append((row, f"{name} is {row.status}: {why}"))
        if row.failing is not None and row.failing.times >= MANY_FAILURES:
            since = ago_text(row.failing.since_ms, seen.now)
            text = f"{name}: {row.failing.times} resizes have failed since {since}: {row.failing.why}"
            troubles.setdefault("failing", []).append((row, text))
        elif row.operation is not None and row.operation.state == "not applied":
            to = size_text(row.operation.to_size.amount(), row.slot_bytes)
            since = ago_text(row.operation.since_ms, seen.now)
            text = f"{name}: {to} was accepted {since} and is not applied"
            troubles.setdefault("not-applied", []).append((row, text))
        old = _old_sample(row, seen)
        if old is not None:
            troubles.setdefault("old-sample", []).append((row, old))
    return troubles


def _old_sample(row: VmRow, seen: Seen) -> str | None:
    """Why the VM is decided on an old sample; None when it isn't, or when all have stopped anyway."""
    tried = row.sample.tried_ms
    if tried is None or seen.last_poll_ms is None or seen.now - seen.last_poll_ms > seen.silence_limit_ms:
        return None
    age = row.sample_age_ms
    if age is not None and age <= seen.silence_limit_ms:
        return None
    if age is None and row.sample.failures == 0:
        return None
    last = "it never had one" if age is None else f"the last one is {span_text(age)} old"
    return f"{printable(row.key)} gives no sample ({last}): {row.sample.error or 'none was polled or pushed'}"


def _limited(problems: list[Problem]) -> list[Problem]:
    """The first ones, and a number for the rest."""
    if len(problems) <= MAX_LISTED:
        return problems
    rest = len(problems) - MAX_LISTED
    code = problems[0].code
    return [*problems[:MAX_LISTED], Problem(code, "", f"… and {count_text(rest, 'VM')} more: {code}")]
