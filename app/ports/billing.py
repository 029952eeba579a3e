"""Ports of billing: meters and outboxes in Redis, and sinks that take events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.ports.store import BucketName, FencingToken


@dataclass(frozen=True, slots=True)
class StoredMeters:
    """What Redis has for a bucket.

    Attributes:
        step: number of the last step that was done, 0 before the first.
        meters: by field, as stored.
        waiting: events in each sink's outbox.
    """

    step: int
    meters: Mapping[str, bytes]
    waiting: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BillingStep:
    """What is done at once.

    Attributes:
        number: above that of the step before; the same step said again is done once.
        meters: by field; `gone` are fields to take away.
        events: by sink, for the end of its outbox.
    """

    number: int
    meters: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    events: Mapping[str, Sequence[bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The oldest events of an outbox.

    Attributes:
        sent: how many have left it so far; goes with `sent`.
    """

    sent: int
    events: tuple[bytes, ...]


class BillingStore(Protocol):
    """Meters and outboxes of each bucket; writes are fenced.

    Each call raises `StoreUnavailable` without an answer.
    """

    def load(self, bucket: BucketName, sinks: Sequence[str]) -> StoredMeters:
        """Everything of a bucket; called after the fence was raised."""
        ...

    def commit(
        self, bucket: BucketName, token: FencingToken, step: BillingStep, sinks: Sequence[str]
    ) -> Mapping[str, int] | None:
        """Do a step, all or nothing; how many events wait for each sink then.

        None: the store has lost earlier steps and nothing was written; load everything again.

        Raises:
            OwnershipLost: a newer token was seen; nothing was written.
        """
        ...

    def length(self, bucket: BucketName, sink: str) -> tuple[int, int]:
        """How many events have left the sink's outbox so far, and how many are in it."""
        ...

    def waiting(self, bucket: BucketName, sink: str, limit: int) -> Waiting:
        """Up to `limit` events, oldest first; nothing is taken away."""
        ...

    def remove(self, bucket: BucketName, token: FencingToken, sink: str, *, sent: int, count: int) -> None:
        """The sink has the oldest `count` events: take them away, once, however often it is said.

        Raises:
            OwnershipLost: a newer token was seen; nothing was removed.
        """
        ...


class EventSink(Protocol):
    """Takes batches of events; each event is a JSON object."""

    @property
    def name(self) -> str:
        """`http`, `s3` or `file`."""
        ...

    def send(self, events: Sequence[bytes], *, label: str, timeout_s: float) -> None:
        """Deliver a batch; returning means that the sink has it.

        Args:
            label: key of the first event; the same at each try.
            timeout_s: for the whole call.

        Raises:
            PeerError: not delivered, or nobody knows: send it again, with the same keys.
        """
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
