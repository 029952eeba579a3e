"""A fleet in memory for readers and the command line: records, trails, intents, leases, agents, a clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.core.model import Millis
from app.ports.registry import AgentRecord
from app.ports.runtime import Monotonic
from app.ports.store import (
    BucketName,
    FencingToken,
    Holder,
    Intent,
    LeaseRow,
    LeaseView,
    VmWrite,
)
from app.ports.vm import VmKey
from app.services.inspection import Buckets, Inspection, Sources
from app.services.instructing import Instructing

NOW = Millis(1_700_049_600_000)
"""2023-11-15 12:00:00 UTC."""

BUCKETS = tuple(BucketName(f"autoscaler-bucket-{i:02}-of-04") for i in range(4))


def bucket_of(key: VmKey) -> BucketName:
    """Any division will do, as long as it is stable."""
    return BUCKETS[sum(key.encode()) % len(BUCKETS)]


@dataclass
class ShownFleet:
    """Stands in for Redis; `on_sleep` is what a live owner does meanwhile."""

    now: Millis = NOW
    records: dict[BucketName, dict[VmKey, bytes]] = field(default_factory=dict)
    trails: dict[VmKey, list[tuple[int, bytes]]] = field(default_factory=dict)
    standing: dict[BucketName, dict[tuple[str, str], Intent]] = field(default_factory=dict)
    rows: dict[BucketName, LeaseRow] = field(default_factory=dict)
    published: dict[str, AgentRecord] = field(default_factory=dict)
    total: int | None = len(BUCKETS)
    is_read_only: bool = False
    loads: int = 0
    slept: float = 0.0
    on_sleep: Callable[[], None] | None = None
    ids: int = 0

    # --- what a test puts in ---

    def add(self, record: Mapping[str, object]) -> VmKey:
        key = VmKey(str(record["key"]))
        self.records.setdefault(bucket_of(key), {})[key] = json.dumps(record).encode()
        return key

    def add_event(self, key: VmKey, at_ms: int, **entry: object) -> None:
        blank: dict[str, object] = {"from": None, "to": None, "why": "", "who": "", "outcome": None}
        self.trails.setdefault(key, []).append((at_ms, json.dumps(blank | entry).encode()))

    def add_agent(self, kind: str, name: str, **facts: object) -> None:
        raw = json.dumps({"kind": kind, "name": name, **facts}).encode()
        self.published[name] = AgentRecord(f"id-{name}", raw, age_ms=700, number=len(self.published) + 1)

    def hold(self, *names: str) -> None:
        """All buckets held, by the named workers in turn."""
        for at, bucket in enumerate(BUCKETS):
            holder = Holder(f"{names[at % len(names)]}_127.0.0.1", f"id-{names[at % len(names)]}")
            self.rows[bucket] = LeaseRow(bucket, holder, FencingToken(7 + at), 12_000)

    # --- Clock ---

    def wall_ms(self) -> Millis:
        return self.now

    def monotonic(self) -> Monotonic:
        return Monotonic(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        if self.on_sleep is not None:
            self.on_sleep()

    def new_id(self) -> str:
        self.ids += 1
        return f"intent-{self.ids}"

    # --- StateStore ---

    def raise_fence(self, bucket: BucketName, token: FencingToken) -> None:
        raise AssertionError("a reader never raises a fence")

    def load(self, bucket: BucketName) -> Mapping[VmKey, bytes]:
        self.loads += 1
        return dict(self.records.get(bucket, {}))

    def commit(self, bucket: BucketName, token: FencingToken, writes: Sequence[VmWrite]) -> None:
        raise AssertionError("a reader never commits")

    def read(self, bucket: BucketName, key: VmKey) -> bytes | None:
        return self.records.get(bucket, {}).get(key)

    def events(self, bucket: BucketName, key: VmKey, limit: int) -> Sequence[tuple[int, bytes]]:
        return self.trails.get(key, [])[-limit:]

    # --- LeaseReader ---

    def stored_total(self) -> int | None:
        return self.total

    def view(self) -> LeaseView:
        free = {bucket: LeaseRow(bucket, None, FencingToken(0), 0) for bucket in BUCKETS}
        return LeaseView(free | self.rows, (), frozenset(), self.now, is_read_only=self.is_read_only)


@dataclass
class ShownIntents:
    """IntentStore over the fleet's intents."""

    fleet: ShownFleet

    def put(self, bucket: BucketName, intent: Intent) -> None:
        self.fleet.standing.setdefault(bucket, {})[intent.target, intent.kind] = intent

    def remove(self, bucket: BucketName, target: str, kind: str) -> bool:
        return self.fleet.standing.get(bucket, {}).pop((target, kind), None) is not None

    def list(self, bucket: BucketName) -> Sequence[Intent]:
        standing = self.fleet.standing.get(bucket, {}).values()
        return [intent for intent in standing if intent.until_ms is None or intent.until_ms > self.fleet.now]


@dataclass
class ShownAgents:
    """AgentRegistry over the fleet's processes."""

    fleet: ShownFleet

    def register(self, agent_id: str, facts: bytes, ttl_s: float, *, number: int | None = None) -> int:
        raise AssertionError("a reader never registers")

    def heartbeat(self, agent_id: str, facts: bytes, ttl_s: float) -> bool:
        raise AssertionError("a reader has no heartbeat")

    def get(self, agent_id: str) -> AgentRecord | None:
        return next((found for found in self.fleet.published.values() if found.agent_id == agent_id), None)

    def list(self) -> Sequence[AgentRecord]:
        return list(self.fleet.published.values())

    def unregister(self, agent_id: str) -> bool:
        raise AssertionError("a reader never unregisters")

    def expire(self) -> Sequence[str]:
        raise AssertionError("a reader expires nothing")


def inspection(fleet: ShownFleet) -> Inspection:
    """A reader of the fleet; VMs are polled every 5 s."""
    sources = Sources(fleet, fleet, ShownAgents(fleet), ShownIntents(fleet), fleet)
    return Inspection(sources, Buckets(BUCKETS, bucket_of), poll_period_s=5.0)


def instructing(fleet: ShownFleet) -> Instructing:
    """A writer of wishes."""
    return Instructing(ShownIntents(fleet), fleet, fleet, fleet.new_id, fleet.sleep)
