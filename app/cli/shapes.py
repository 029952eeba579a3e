"""The JSON that `--json` prints: stable keys, in snake case.

A size is `{"cpu_m": milli-vCPU, "mem": slots, "mem_bytes"}`, a time ends in `_ms` (Unix milliseconds), an
unknown value is null. Keys are added, never renamed. Texts are escaped and cut as on the screen.
"""

from __future__ import annotations

import json

import click

from app.core.resources import Resources
from app.ports.store import Intent, LeaseRow
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow
from app.services.fleet_view import FleetView, VmRow
from app.services.inspection import AuditLine
from app.services.vm_record import Size

Json = dict[str, object]
"""An object as `json.dumps` takes it."""


def show_json(value: object) -> None:
    """Write one JSON document to standard output, ASCII only, keys in the order given."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def size_shape(size: Resources | None, slot_bytes: int | None) -> Json | None:
    """A size; `mem_bytes` is null where a slot's size isn't known."""
    if size is None:
        return None
    mem_bytes = None if slot_bytes is None else size.mem * slot_bytes
    return {"cpu_m": size.cpu, "mem": size.mem, "mem_bytes": mem_bytes}


def vm_shape(row: VmRow) -> Json:
    """One VM: an element of `vms` in `vm list`, and what `vm show` prints."""
    metrics, pause, operation, last = row.metrics, row.pause, row.operation, row.last
    slot = row.slot_bytes
    return {
        "vm": printable(row.key),
        "bucket": row.bucket,
        "worker": row.worker,
        "node": row.node,
        "mode": row.mode.value,
        "mode_by": row.mode_by,
        "mode_reason": row.mode_reason,
        "status": row.status,
        "status_reason": row.status_reason,
        "pause": None if pause is None else pause.model_dump(),
        "fixed": None if row.fixed is None else row.fixed.model_dump(),
        "min": size_shape(row.min, slot),
        "max": size_shape(row.max, slot),
        "now": size_shape(row.use, slot),
        "observed": size_shape(row.observed, slot),
        "desired": size_shape(row.desired, slot),
        "slot_bytes": slot,
        "metrics": None
        if metrics is None
        else {"load1": metrics.load1, "load5": metrics.load5, "mem_bytes": metrics.mem_bytes},
        "sample": {**row.sample.model_dump(), "age_ms": row.sample_age_ms},
        "operation": None
        if operation is None
        else {
            "kind": operation.kind,
            "from": _amount_shape(operation.from_size, slot),
            "to": _amount_shape(operation.to_size, slot),
            "since_ms": operation.since_ms,
            "state": operation.state,
        },
        "last": None
        if last is None
        else {
            "at_ms": last.at_ms,
            "kind": last.kind,
            "from": _amount_shape(last.from_size, slot),
            "to": _amount_shape(last.to_size, slot),
            "why": last.why,
        },
        "why": printable(row.why),
        "counters": dict(row.counters),
    }


def fleet_shape(view: FleetView) -> Json:
    """What `status` prints: health first, then processes, buckets and sums; VMs are `vm list`'s."""
    totals = view.totals
    return {
        "healthy": view.is_healthy,
        "now_ms": view.now_ms,
        "problems": [
            {"code": found.code, "subject": printable(found.subject), "text": printable(found.text)}
            for found in view.problems
        ],
        "vms": {
            "total": totals.vms,
            "scaled": totals.scaled,
            "observed": totals.observed,
            "paused": totals.paused,
            "fixed": totals.fixed,
            "resizing": totals.resizing,
            "short": totals.short,
        },
        "now": {"cpu_m": totals.cpu_use_m, "mem_bytes": totals.mem_use_bytes},
        "desired": {"cpu_m": totals.cpu_desired_m, "mem_bytes": totals.mem_desired_bytes},
        "last_poll_ms": view.last_poll_ms,
        "counters": dict(view.counters),
        "agents": [agent_shape(agent) for agent in view.agents],
        "buckets": [lease_shape(lease) for lease in view.leases],
    }


def agent_shape(agent: AgentRow) -> Json:
    """One live process."""
    return {
        "kind": agent.kind,
        "name": agent.name,
        "agent_id": printable(agent.agent_id),
        "number": agent.number,
        "identity": agent.identity,
        "address": agent.address,
        "pid": agent.pid,
        "version": agent.version,
        "started_ms": agent.started_ms,
        "age_ms": agent.age_ms,
        "protocol": None if agent.protocol is None else {"min": agent.protocol[0], "max": agent.protocol[1]},
        "draining": agent.is_draining,
        "buckets": list(agent.buckets),
        "vms": agent.vms,
        "counters": dict(agent.counters),
        "problems": list(agent.problems),
    }


def lease_shape(lease: LeaseRow) -> Json:
    """One bucket's lease; `holder` is null when it is free."""
    holder = lease.holder
    return {
        "bucket": lease.bucket,
        "holder": None if holder is None else printable(holder.identity),
        "agent_id": None if holder is None else printable(holder.agent_id),
        "token": lease.token,
        "acquired_ms": lease.acquired_ms or None,
        "remaining_ms": lease.remaining_ms,
    }


def audit_shape(line: AuditLine, slot_bytes: int | None) -> Json:
    """One entry of an audit trail; all but `at_ms` and `kind` are null where it can't be read."""
    entry = line.entry
    if entry is None:
        blank = dict.fromkeys(("from", "to", "why", "who", "outcome"))
        return {"at_ms": line.at_ms, "kind": "unreadable", **blank}
    return {
        "at_ms": line.at_ms,
        "kind": entry.kind,
        "from": _amount_shape(entry.from_size, slot_bytes),
        "to": _amount_shape(entry.to_size, slot_bytes),
        "why": entry.why,
        "who": entry.who,
        "outcome": entry.outcome,
    }


def intent_shape(intent: Intent | None) -> Json | None:
    """An operator's wish."""
    if intent is None:
        return None
    return {
        "target": printable(intent.target),
        "kind": printable(intent.kind),
        "value": printable(intent.value),
        "until_ms": intent.until_ms,
        "reason": printable(intent.reason),
        "author": printable(intent.author),
        "at_ms": intent.at_ms,
        "id": printable(intent.intent_id),
    }


def _amount_shape(size: Size | None, slot_bytes: int | None) -> Json | None:
    return None if size is None else size_shape(size.amount(), slot_bytes)
