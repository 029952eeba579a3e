"""Changing the number of buckets of a fleet whose workers are stopped (`spec/forwarder.md`).

What must be true: from the first step to the last no worker can start; each step is atomic for its VM and may
be done twice, so that a run that was killed is finished by running it again; nothing that waits is lost but
ticks and scaling tasks, which the next tick makes anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.cluster.bucket_total import parse_resize, read_total
from app.cluster.ring import BucketSet
from app.errors import InvalidInput, UsageError
from app.ports.registry import AgentRegistry
from app.ports.resize import Contents, ResizeStore
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.protocols.stats import decode_stat
from app.services.agent_facts import read_agent

MAX_NAMED = 8
"""Workers that an error names."""


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """What a resize moves.

    Attributes:
        is_unfinished: an earlier run began it and did not end it.
        vms: with a record; `gone` are deleted ones whose trail is still kept.
        intents: operators' wishes for single VMs and for all.
        stats: that wait for their owners.
    """

    old: int
    new: int
    is_unfinished: bool
    vms: int
    gone: int
    intents: int
    stats: int

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the fleet has that number."""
        return self.old == self.new


@dataclass(frozen=True, slots=True)
class ResizeOutcome:
    """What was moved, and what was dropped: tasks, and stats that can't be read."""

    vms: int
    stats: int
    dropped_stats: int
    dropped_tasks: int


class Resizing:
    """The steps of a resize."""

    def __init__(self, store: ResizeStore, agents: AgentRegistry) -> None:
        self._store = store
        self._agents = agents

    def plan(self, new: int) -> ResizePlan:
        """What would be moved; nothing is changed.

        Raises:
            UsageError: no worker has ever started, another resize is unfinished, or workers are at work.
        """
        old, is_unfinished = self._from(new)
        if old == new:
            return ResizePlan(old, new, is_unfinished, 0, 0, 0, 0)
        self._refuse_live(old)
        contents = self._store.contents(old).values()
        for_all = {field for bucket in contents for field in bucket.for_all}
        return ResizePlan(
            old=old,
            new=new,
            is_unfinished=is_unfinished,
            vms=sum(len(bucket.records) for bucket in contents),
            gone=sum(len(bucket.trails - bucket.records.keys()) for bucket in contents),
            intents=len(for_all) + sum(len(fields) for each in contents for fields in each.intents.values()),
            stats=sum(len(bucket.stats) for bucket in contents),
        )

    def carry_out(self, plan: ResizePlan, moved: Callable[[int], None]) -> ResizeOutcome:
        """Move everything; `moved` is told of the number of VMs after each bucket.

        Raises:
            UsageError: a worker has started meanwhile; nothing was changed.
            StoreUnavailable: Redis is away; run it again.
        """
        if not self._store.begin(plan.old, plan.new):
            self._refuse_live(plan.old)
            raise UsageError("the number of buckets has changed meanwhile; nothing was done: try again")
        ring = BucketSet(plan.new)
        contents = self._store.contents(plan.old)
        new_names = [BucketName(name) for name in ring.names]
        self._store.spread_intents(_newest(contents), list(contents), new_names)
        vms = stats = dropped = 0
        for bucket, held in contents.items():
            for key in sorted(held.keys):
                self._move_vm(key, bucket, BucketName(ring.owner(key)), held)
            vms += len(held.records)
            for stat in held.stats:
                target = _target(stat, ring)
                self._store.move_stat(stat, bucket, target)
                stats, dropped = (stats, dropped + 1) if target is None else (stats + 1, dropped)
            moved(vms)
        self._store.move_billing(list(contents), new_names, lambda key: BucketName(ring.owner(key)))
        tasks = self._store.drop_tasks(plan.old)
        self._store.finish(plan.old, plan.new)
        return ResizeOutcome(vms, stats, dropped, tasks)

    def _move_vm(self, key: VmKey, old: BucketName, new: BucketName, held: Contents) -> None:
        raw = held.records.get(key)
        record = None if raw is None else _with_bucket(raw, old, new)
        self._store.move_vm(key, old, new, record, held.intents.get(key, ()))

    def _from(self, new: int) -> tuple[int, bool]:
        stored = self._store.stored()
        if stored is None:
            raise UsageError(
                "no worker has ever started here, so there is nothing to move: set .ownership.buckets to "
                f"{new} and start the workers"
            )
        under_way = parse_resize(stored)
        if under_way is None:
            old = read_total(stored)
            if old is None or not 1 <= old <= 2048:
                raise UsageError(f"what Redis has as the number of buckets is none: {printable(stored, 40)}")
            return old, False
        old, target = under_way
        if target != new:
            raise UsageError(
                f"a change from {old} to {target} buckets has begun and not ended: "
                f"run `vmscaler buckets resize {target}` first"
            )
        return old, True

    def _refuse_live(self, old: int) -> None:
        live = self._store.at_work(old)
        if not live:
            return
        names = {record.agent_id: read_agent(record).name for record in self._agents.list()}
        told = [printable(names.get(agent) or identity or agent, 80) for agent, identity in live.items()]
        named = ", ".join(sorted(told)[:MAX_NAMED]) + (" …" if len(told) > MAX_NAMED else "")
        raise UsageError(
            f"workers are at work, or their leases have not ended: {named}; stop all workers first "
            "(one that was killed counts until its leases end)"
        )


def _newest(contents: Mapping[BucketName, Contents]) -> dict[str, bytes]:
    """Of the intents for all VMs the newest of each kind: all buckets have the same, as a rule."""
    newest: dict[str, bytes] = {}
    for bucket in contents.values():
        for field, value in bucket.for_all.items():
            if field not in newest or _written_ms(value) > _written_ms(newest[field]):
                newest[field] = value
    return newest


def _written_ms(intent: bytes) -> int:
    try:
        return int(json.loads(intent.partition(b" ")[2])["at_ms"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def _with_bucket(raw: bytes, old: BucketName, new: BucketName) -> bytes:
    """The record with its bucket's new name; as it is where it can't be read."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(record, dict) or record.get("bucket") != old:
        return raw
    return json.dumps({**record, "bucket": new}, separators=(",", ":")).encode()


def _target(stat: bytes, ring: BucketSet) -> BucketName | None:
    try:
        return BucketName(ring.owner(decode_stat(stat).key))
    except InvalidInput:
        return None
