"""Brings the events of held buckets from Redis to one sink: in order, with the same keys at every try.

An event is sent a little while after it was written: a Redis that has crashed may have lost the last second
of what it had said it had, and that second is then counted again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import OwnershipLost, PeerError, StoreUnavailable
from app.ports.billing import BillingStore, EventSink
from app.ports.runtime import Signal
from app.ports.store import BucketName, FencingToken
from app.services.guarding import Guards

logger = logging.getLogger(__name__)

SETTLE_S = 2.0
"""Between writing and sending; `appendfsync everysec` loses at most as much."""


@dataclass(frozen=True, slots=True)
class PushRules:
    """How often, how long a delivery may take, and how many events it may hold."""

    push_every_s: float
    timeout_s: float
    max_batch: int


class OutboxPushing:
    """One sink's job.

    Attributes:
        sent: events that the sink has taken from us; `failures` are tries that it has not.
        problem: why nothing can be delivered, "" while all is well.
    """

    def __init__(self, sink: EventSink, store: BillingStore, guards: Guards, rules: PushRules) -> None:
        self._sink = sink
        self._store = store
        self._guards = guards
        self._rules = rules
        self._held: dict[BucketName, FencingToken] = {}
        self.sink_name = sink.name
        self.sent = 0
        self.failures = 0
        self.problem = ""

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Its outbox is ours to empty."""
        self._held[bucket] = token

    def lost(self, bucket: BucketName) -> None:
        """It is another worker's."""
        self._held.pop(bucket, None)

    def run(self, stop: Signal) -> None:
        """Push until stopped."""
        while not stop.wait(self._rules.push_every_s):
            ripe = self.look()
            if ripe and not stop.wait(SETTLE_S):
                self.push(ripe, stop)
        self._sink.close()

    def look(self) -> dict[BucketName, int]:
        """For each held bucket how far its outbox may be emptied, as a count since its beginning."""
        ripe: dict[BucketName, int] = {}
        for bucket in sorted(self._held):
            try:
                sent, waiting = self._store.length(bucket, self.sink_name)
            except StoreUnavailable as err:
                self._say(f"Redis: {err.problem}")
                return ripe
            if waiting:
                ripe[bucket] = sent + waiting
        return ripe

    def push(self, ripe: dict[BucketName, int], stop: Signal) -> None:
        """Deliver so far, batch by batch; the first failure ends it until the next time."""
        for bucket, until in ripe.items():
            try:
                while not stop.is_set() and self._push_batch(bucket, until):
                    pass
            except OwnershipLost as err:
                logger.debug("outbox left to its owner", extra={"bucket": bucket, "reason": str(err)})
            except PeerError as err:
                self.failures += 1
                self._say(str(err))
                return
        self._say("")

    def _push_batch(self, bucket: BucketName, until: int) -> bool:
        """Deliver the oldest events; whether there may be more."""
        token = self._held.get(bucket)
        if token is None:
            return False
        waiting = self._store.waiting(bucket, self.sink_name, self._rules.max_batch)
        events = waiting.events[: max(until - waiting.sent, 0)]
        if not events:
            return False
        guard = self._guards.guard(bucket)
        self._sink.send(events, label=_label(events), timeout_s=guard.limit_s(self._rules.timeout_s))
        self.sent += len(events)
        self._store.remove(bucket, token, self.sink_name, sent=waiting.sent, count=len(events))
        return True

    def _say(self, problem: str) -> None:
        text = f"billing: no events to {self.sink_name}: {problem[:200]}" if problem else ""
        if text == self.problem:
            return
        self.problem = text
        if text:
            logger.warning("events not delivered", extra={"sink": self.sink_name, "reason": problem[:200]})
        else:
            logger.info("events delivered again", extra={"sink": self.sink_name})


def _label(events: Sequence[bytes]) -> str:
    return str(json.loads(events[0])["idempotency_key"])
