"""Brings scaling events to one place; to a sink, in batches. Queues are bounded.

Events wait in memory: those of a worker that is killed are lost, the audit trail has them still. A delivery
that failed is tried again with the same ids.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from app.errors import PeerError
from app.ports.billing import EventSink
from app.ports.runtime import Signal
from app.services.scaling_events import ScalingEvent

logger = logging.getLogger(__name__)

LAST_TRY_S = 2.0
"""For a delivery after the worker was told to stop."""


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """How often batches go, how long a call may take, and how much may be in a batch and in a queue."""

    push_every_s: float
    timeout_s: float
    max_batch: int
    max_queued: int


class Delivery(Protocol):
    """Where events go."""

    @property
    def name(self) -> str:
        """For jobs, counters and texts; each delivery of a worker has another."""
        ...

    @property
    def problem(self) -> str:
        """Why nothing can be delivered, "" while all is well."""
        ...

    def put(self, event: ScalingEvent) -> None:
        """Take an event; does not wait."""
        ...

    def run(self, stop: Signal) -> None:
        """Deliver until stopped, and once more then."""
        ...

    def counters(self) -> dict[str, int]:
        """Events sent, waiting, dropped, and tries that failed."""
        ...


class EventQueue:
    """Events that wait, the oldest first; one too many pushes the oldest out."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.events: deque[ScalingEvent] = deque()
        self.limit = limit
        self.sent = self.failures = self.dropped = 0
        self.problem = ""

    def put(self, event: ScalingEvent) -> None:
        """Append one."""
        self.events.append(event)
        if len(self.events) > self.limit:
            self.events.popleft()
            self.drop("the queue is full")

    def drop(self, reason: str) -> None:
        """Count one that is given up; the first is said."""
        self.dropped += 1
        if self.dropped == 1:
            logger.warning("scaling events dropped", extra={"target": self.name, "reason": reason[:200]})

    def say(self, problem: str) -> None:
        """Keep the reason, and log it when it changes."""
        text = f"scaling events: none to {self.name}: {problem[:200]}" if problem else ""
        if text == self.problem:
            return
        self.problem = text
        if text:
            logger.warning(
                "scaling events not delivered", extra={"target": self.name, "reason": problem[:200]}
            )
        else:
            logger.info("scaling events delivered again", extra={"target": self.name})

    def counters(self) -> dict[str, int]:
        """By what follows the delivery's name."""
        counts = {"sent": self.sent, "failed": self.failures, "dropped": self.dropped}
        return {f"events_{self.name}_{what}": count for what, count in counts.items()} | {
            f"events_{self.name}_waiting": len(self.events)
        }


class SinkDelivery:
    """Batches for a sink, in order."""

    def __init__(self, sink: EventSink, rules: DeliveryRules) -> None:
        self._sink = sink
        self._rules = rules
        self._queue = EventQueue(sink.name, rules.max_queued)
        self.name = sink.name

    @property
    def problem(self) -> str:
        """See `Delivery.problem`."""
        return self._queue.problem

    def put(self, event: ScalingEvent) -> None:
        """See `Delivery.put`."""
        self._queue.put(event)

    def counters(self) -> dict[str, int]:
        """See `Delivery.counters`."""
        return self._queue.counters()

    def run(self, stop: Signal) -> None:
        """See `Delivery.run`."""
        while not stop.wait(self._rules.push_every_s):
            self.push(self._rules.timeout_s)
        self.push(min(self._rules.timeout_s, LAST_TRY_S))
        self._sink.close()

    def push(self, timeout_s: float) -> None:
        """Deliver all that waits; the first failure ends it until the next time."""
        events = self._queue.events
        while events:
            batch = [events[index] for index in range(min(len(events), self._rules.max_batch))]
            try:
                self._sink.send(
                    [event.encode() for event in batch], label=batch[0].event_id, timeout_s=timeout_s
                )
            except PeerError as err:
                self._queue.failures += 1
                self._queue.say(str(err))
                return
            # Those that were pushed out meanwhile are not there any more.
            for event in batch:
                if events and events[0] is event:
                    events.popleft()
            self._queue.sent += len(batch)
        self._queue.say("")
