"""A VM's record in Redis: what the next owner goes on from, and what the command line shows.

JSON, versioned: see `record_version`. Sizes are `{"cpu_m", "mem"}`, times Unix milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import replace

from app.core.model import Millis
from app.core.resources import resources
from app.core.snapshot import from_snapshot, to_snapshot
from app.core.state import State
from app.errors import InvalidInput
from app.ports.runtime import Clock
from app.ports.store import BucketName, Intent, VmWrite
from app.ports.vm import VirtualMachine
from app.services.agent_settings import AgentSettings
from app.services.audit import MAX_TEXT, size_json
from app.services.fixed_size import KIND as RESIZE
from app.services.fixed_size import read_fixed
from app.services.record_version import RECORD_VERSION, parse_record
from app.services.runner import Runner
from app.services.tracking import Awaited, Counters, Operation, Sampling
from app.services.vector_json import actions_json


def build_write(runner: Runner) -> VmWrite:
    """The runner's part of a commit; the pending audit entries are taken out of it."""
    return VmWrite(
        runner.key,
        json.dumps(build_record(runner), separators=(",", ":")).encode(),
        is_deleted=False,
        events=runner.audit.take(),
    )


def build_record(runner: Runner) -> dict[str, object]:
    """All that is worth keeping of a runner."""
    mode_intent, failing = runner.intents.get("mode"), runner.failing
    return {
        "v": RECORD_VERSION,
        "key": runner.key,
        "uid": runner.vm.uid,
        "bucket": runner.bucket,
        "worker": runner.settings.worker,
        "node": runner.vm.node,
        "snapshot": to_snapshot(runner.state),
        "core_now_ms": runner.now(),
        "platform": _platform_json(runner),
        "mode": runner.mode,
        "mode_by": "platform" if mode_intent is None else mode_intent.author,
        "mode_reason": "" if mode_intent is None else mode_intent.reason,
        "pause": _pause_json(runner.pause),
        "fixed": _fixed_json(runner.intents.get(RESIZE)),
        "status": runner.status,
        "status_reason": runner.status_reason,
        "sample": {name: getattr(runner.sampling, name) for name in Sampling.__slots__},
        "decision": {
            "at_ms": runner.decided_ms,
            "desired": size_json(runner.decided.desired or runner.state.vm.use),
            "actions": actions_json(runner.plan),
            "reasons": list(runner.plan.reasons),
        },
        "operation": _operation_json(runner.operation),
        "failing": None
        if failing is None
        else {"since_ms": failing.since_ms, "times": failing.times, "why": failing.why[:MAX_TEXT]},
        "last": runner.last,
        "stat_ms": runner.stat_ms,
        "intents": {kind: intent.intent_id for kind, intent in runner.intents.items()},
        "counters": {name: getattr(runner.counters, name) for name in Counters.__slots__},
    }


def _platform_json(runner: Runner) -> dict[str, object]:
    vm = runner.vm
    return {
        "use": size_json(vm.use),
        "observed": size_json(vm.observed),
        "min": size_json(vm.min),
        "max": size_json(vm.max),
        "slot_bytes": vm.slot_bytes,
        "mode": vm.mode,
        "monitor": vm.monitor,
        "migrating": vm.migrating or runner.is_migrating_by_scheduler,
        "endpoint_id": vm.endpoint_id,
    }


def _operation_json(operation: Operation | None) -> dict[str, object] | None:
    if operation is None:
        return None
    return {
        "kind": operation.kind,
        "from": size_json(operation.origin),
        "to": size_json(operation.target),
        "since_ms": operation.since_ms,
        "state": "not applied" if operation.is_overdue else "resizing",
    }


def _pause_json(pause: Intent | None) -> dict[str, object] | None:
    if pause is None:
        return None
    return {
        "until_ms": pause.until_ms,
        "reason": pause.reason,
        "author": pause.author,
        "since_ms": pause.at_ms,
    }


def _fixed_json(intent: Intent | None) -> dict[str, object] | None:
    fixed = read_fixed(intent)
    if intent is None or fixed is None:
        return None
    return {
        "cpu_m": fixed.cpu,
        "mem_bytes": fixed.mem_bytes,
        "until_ms": intent.until_ms,
        "reason": intent.reason,
        "author": intent.author,
        "since_ms": intent.at_ms,
    }


def restore_runner(
    raw: bytes, vm: VirtualMachine, bucket: BucketName, settings: AgentSettings, clock: Clock
) -> Runner:
    """A runner that goes on from an earlier owner's record.

    Raises:
        NewerVersion: a later version of this program wrote it: leave the VM and its record alone.
        InvalidInput: the record can't be read, or is another VM's that had the same name: start anew.
    """
    record = parse_record(raw)
    if record.get("uid") != vm.uid:
        raise InvalidInput(vm.key, "the record is that of an earlier VM with this name")
    snapshot = record.get("snapshot")
    if not isinstance(snapshot, dict):
        raise InvalidInput(f"{vm.key} .snapshot", "is missing")
    state: State = replace(from_snapshot(snapshot, clock.wall_ms()), config=settings.core)
    runner = Runner(vm, bucket, settings, clock, state)
    core_now = record.get("core_now_ms")
    if isinstance(core_now, int):
        runner.continue_from(Millis(core_now))
    last = record.get("last")
    runner.last = last if isinstance(last, dict) else None
    runner.awaited = _awaited(record.get("operation"), settings, runner.now())
    stat_ms = record.get("stat_ms")
    runner.stat_ms = stat_ms if isinstance(stat_ms, int) else None
    counters = record.get("counters")
    if isinstance(counters, dict):
        for name in Counters.__slots__:
            value = counters.get(name)
            if isinstance(value, int) and value >= 0:
                setattr(runner.counters, name, value)
    return runner


def _awaited(operation: object, settings: AgentSettings, now: Millis) -> Awaited | None:
    """The resize under way when the record was written; None without one, or with one that was given up."""
    match operation:
        case {
            "state": "resizing",
            "to": {"cpu_m": int(cpu), "mem": int(mem)},
            "since_ms": int(since),
        } if cpu > 0 and mem > 0:
            since = min(since, now)
            until = since + round(settings.apply_timeout_s * 1000)
            return Awaited(resources(cpu, mem), Millis(since), Millis(until))
    return None
