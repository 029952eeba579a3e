"""What is left to Redis where the leases are in a Kubernetes API server: who lives, and the fences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from app.ports.store import BucketName, FencingToken, Holder, LeaseRow


@dataclass(frozen=True, slots=True)
class PresenceView:
    """One moment of Redis' clock.

    Attributes:
        live_agents: agent ids whose heartbeat is younger than the lease duration.
        draining: agent ids that are to hand over everything.
        fences: the highest token that Redis has seen, by bucket; 0 where there is none.
        in_redis: leases that workers with leases in Redis hold; nobody else may take these buckets.
        redis_ms: Redis' clock, Unix milliseconds.
    """

    live_agents: tuple[str, ...]
    draining: frozenset[str]
    fences: Mapping[BucketName, int]
    in_redis: Mapping[BucketName, LeaseRow]
    redis_ms: int


class Presence(Protocol):
    """Each call is one atomic step and one round trip; `StoreUnavailable` without an answer."""

    def check_total(self, total: int) -> None:
        """See `LeaseStore.check_total`."""
        ...

    def stored_total(self) -> int | None:
        """See `LeaseReader.stored_total`."""
        ...

    def beat(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> PresenceView:
        """Heartbeat; raise the fences to the tokens of what is held, none is lowered.

        Until a lease duration after the last beat no worker with leases in Redis acquires anything.

        Raises:
            ConfigurationError: the fleet has another number of buckets; nothing was done.
        """
        ...

    def look(self) -> PresenceView:
        """The same for readers; nothing is written."""
        ...

    def leave(self, holder: Holder) -> None:
        """See `LeaseStore.leave`."""
        ...
