"""Meters and outboxes in memory, fenced; a sink that keeps what it was sent; both can fail anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from app.errors import OwnershipLost, PeerError, StoreUnavailable
from app.ports.billing import BillingStep, StoredMeters, Waiting
from app.ports.store import BucketName, FencingToken


class MemoryBilling:
    """A `BillingStore`.

    Attributes:
        around: called before each write and, unless that raised, after it; what it raises leaves the call.
    """

    def __init__(self, around: Callable[[str], None] = lambda moment: None) -> None:
        self.fences: dict[BucketName, int] = {}
        self.steps: dict[BucketName, int] = {}
        self.meters: dict[BucketName, dict[str, bytes]] = {}
        self.outboxes: dict[tuple[BucketName, str], list[bytes]] = {}
        self.left: dict[tuple[BucketName, str], int] = {}
        self.around = around
        self.is_away = False

    def raise_fence(self, bucket: BucketName, token: FencingToken) -> None:
        """As the supervisor has it done by the store of records."""
        self._check(bucket, token)

    def load(self, bucket: BucketName, sinks: Sequence[str]) -> StoredMeters:
        self._answer()
        waiting = {sink: len(self.outboxes.get((bucket, sink), [])) for sink in sinks}
        return StoredMeters(self.steps.get(bucket, 0), dict(self.meters.get(bucket, {})), waiting)

    def commit(
        self, bucket: BucketName, token: FencingToken, step: BillingStep, sinks: Sequence[str]
    ) -> Mapping[str, int] | None:
        self._answer()
        self.around("before a commit")
        self._check(bucket, token)
        stored = self.steps.get(bucket, 0)
        if stored < step.number - 1:
            return None
        if stored < step.number:
            meters = self.meters.setdefault(bucket, {})
            meters.update(step.meters)
            for field in step.gone:
                meters.pop(field, None)
            for sink in sinks:
                self.outboxes.setdefault((bucket, sink), []).extend(step.events.get(sink, ()))
            self.steps[bucket] = step.number
        self.around("after a commit")
        return {sink: len(self.outboxes.get((bucket, sink), [])) for sink in sinks}

    def length(self, bucket: BucketName, sink: str) -> tuple[int, int]:
        self._answer()
        return self.left.get((bucket, sink), 0), len(self.outboxes.get((bucket, sink), []))

    def waiting(self, bucket: BucketName, sink: str, limit: int) -> Waiting:
        self._answer()
        events = self.outboxes.get((bucket, sink), [])
        return Waiting(self.left.get((bucket, sink), 0), tuple(events[:limit]))

    def remove(self, bucket: BucketName, token: FencingToken, sink: str, *, sent: int, count: int) -> None:
        self._answer()
        self.around("before a removal")
        self._check(bucket, token)
        place = (bucket, sink)
        if self.left.get(place, 0) == sent:
            del self.outboxes.setdefault(place, [])[:count]
            self.left[place] = sent + count
        self.around("after a removal")

    def _answer(self) -> None:
        if self.is_away:
            raise StoreUnavailable("redis", "is away")

    def _check(self, bucket: BucketName, token: FencingToken) -> None:
        fence = self.fences.get(bucket, 0)
        if token < fence:
            raise OwnershipLost(bucket, f"token {token} is older than {fence}; nothing was written")
        self.fences[bucket] = token


class MemorySink:
    """An `EventSink`.

    Attributes:
        batches: all that arrived, each as (label, events), those whose answer was an error too.
        refuse: raised before a batch is kept; `refuse_late` after it.
    """

    def __init__(self, name: str = "http") -> None:
        self.name = name
        self.batches: list[tuple[str, list[dict[str, object]]]] = []
        self.refuse: PeerError | None = None
        self.refuse_late: PeerError | None = None
        self.around: Callable[[str], None] = lambda moment: None
        self.is_closed = False

    def send(self, events: Sequence[bytes], *, label: str, timeout_s: float) -> None:
        self.around("before a delivery")
        if self.refuse is not None:
            raise self.refuse
        self.batches.append((label, [json.loads(event) for event in events]))
        self.around("after a delivery")
        if self.refuse_late is not None:
            raise self.refuse_late

    def close(self) -> None:
        self.is_closed = True

    @property
    def events(self) -> list[dict[str, object]]:
        """What arrived, each key once, in the order of first arrival; equal keys must be equal events."""
        found: dict[object, dict[str, object]] = {}
        for _, events in self.batches:
            for event in events:
                assert found.setdefault(event["idempotency_key"], event) == event
        return list(found.values())
