"""What Redis holds: leases, VM records, ticks, intents. The registry of agents is in `app.ports.registry`.

Every call raises `StoreUnavailable` when Redis gives no answer within its time limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol

from app.ports.vm import VmKey

BucketName = NewType("BucketName", str)
"""`autoscaler-bucket-II-of-TT`."""

FencingToken = NewType("FencingToken", int)
"""Only ever grows per bucket; a write with an older one is refused."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease. Two are equal when their agent ids are.

    Attributes:
        identity: `<name>_<ip>`; the address is what follows the last `_`.
        agent_id: uuid, new at each start of a worker.
    """

    identity: str = field(compare=False)
    agent_id: str


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One bucket's lease as Redis has it.

    Attributes:
        holder: None when the bucket is free (or its lease has expired).
        token: the last token given for the bucket, 0 if none ever was.
        remaining_ms: until it expires by Redis' clock; 0 when free.
        acquired_ms: since when this holder has it, Unix ms by Redis' clock; 0 when free or unknown.
    """

    bucket: BucketName
    holder: Holder | None
    token: FencingToken
    remaining_ms: int
    acquired_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaseView:
    """All leases and live agents at one moment of Redis' clock.

    Attributes:
        leases: one row per bucket.
        live_agents: agent ids whose heartbeat is younger than the lease duration.
        renewed: buckets whose lease the caller asked to renew and still holds.
        redis_ms: Redis' clock, Unix milliseconds.
        draining: agent ids that are to hand over everything and take nothing, live or not.
        silence_ms: for so long nobody may acquire, since leases may have been lost; 0 as a rule.
        is_read_only: a replica was asked: nobody can renew or take a lease there.
        unanswered: buckets whose lease the caller asked to renew, where it is not known whether it was.
    """

    leases: Mapping[BucketName, LeaseRow]
    live_agents: tuple[str, ...]
    renewed: frozenset[BucketName]
    redis_ms: int
    draining: frozenset[str] = frozenset()
    silence_ms: int = 0
    is_read_only: bool = False
    unanswered: frozenset[BucketName] = frozenset()

    @property
    def takers(self) -> tuple[str, ...]:
        """Live agents among whom the buckets are shared: those that drain don't count."""
        return tuple(agent for agent in self.live_agents if agent not in self.draining)


class LeaseStore(Protocol):
    """Leases with fencing tokens; each call is one atomic step and one round trip."""

    def check_total(self, total: int) -> None:
        """Store the number of buckets at the first start.

        Raises:
            ConfigurationError: another number is in force, or it is being changed; says what to do.
        """
        ...

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        """Heartbeat of the holder, renewal of what it holds, and a view of everything.

        The number of buckets is written back where Redis has lost it.

        Raises:
            ConfigurationError: as `check_total`; then there was no heartbeat and nothing was renewed.
        """
        ...

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        """Take those of `buckets` that are free; `seen` is the highest token that the caller knows of."""
        ...

    def release(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> None:
        """Let go of those that are still ours; others are left alone."""
        ...

    def leave(self, holder: Holder) -> None:
        """Take the holder's heartbeat away: it no longer counts for the fair share."""
        ...


class LeaseReader(Protocol):
    """Leases for readers that hold none (the command line, the demo's screen); nothing is written."""

    def stored_total(self) -> int | None:
        """The number of buckets in force; None before the first start of a worker.

        Raises:
            ConfigurationError: it is being changed; says how to finish that.
        """
        ...

    def view(self) -> LeaseView:
        """All leases and live agents, with an empty `renewed`."""
        ...


@dataclass(frozen=True, slots=True)
class VmWrite:
    """One VM's part of a commit.

    Attributes:
        record: the new record, JSON bytes; None leaves it as it is.
        is_deleted: the VM is gone: its record and events expire after the retention time.
        events: entries for its audit trail, JSON bytes each, oldest first.
    """

    key: VmKey
    record: bytes | None
    is_deleted: bool = False
    events: tuple[bytes, ...] = ()


class StateStore(Protocol):
    """Records and audit trails of VMs, one hash per bucket; writes are fenced."""

    def raise_fence(self, bucket: BucketName, token: FencingToken) -> None:
        """Refuse every older token from now on; called at take-over, before `load`."""
        ...

    def load(self, bucket: BucketName) -> Mapping[VmKey, bytes]:
        """All records of a bucket."""
        ...

    def commit(self, bucket: BucketName, token: FencingToken, writes: Sequence[VmWrite]) -> None:
        """Write all or nothing, at most 250 VMs a call.

        Raises:
            OwnershipLost: a newer token was seen; nothing was written.
        """
        ...

    def read(self, bucket: BucketName, key: VmKey) -> bytes | None:
        """One VM's record, for readers that own nothing (the command line)."""
        ...

    def events(self, bucket: BucketName, key: VmKey, limit: int) -> Sequence[tuple[int, bytes]]:
        """The newest `limit` entries of a VM's audit trail: (Unix ms, JSON), oldest first."""
        ...


class TickStore(Protocol):
    """Whose turn it is to be polled."""

    def take_due(self, total: int, period_s: float) -> Sequence[tuple[BucketName, int]]:
        """Buckets whose turn has come, each with its new seq; spread over the period.

        One script: a bucket is refused if less than half a period of Redis' time has passed since its last
        turn; a clock that went back is accepted.
        """
        ...


class TickReader(Protocol):
    """Turns for readers; nothing is written."""

    def last_turns(self, total: int) -> Sequence[int | None]:
        """When each bucket had its last turn, in order: Unix ms by Redis' clock; None: never."""
        ...


@dataclass(frozen=True, slots=True)
class Intent:
    """What an operator wants, written by the command line and read by the owner at its tick.

    Attributes:
        target: a VM's key, or `*` for all VMs of the bucket.
        kind: `pause`, `mode` or `resize` (one standing intent per target and kind).
        value: `on` for pause; the mode; the size (`app.services.fixed_size`); or that it was taken back.
        until_ms: Unix ms when it ends by itself; None: until taken back.
        author: who; shown in the audit trail.
        intent_id: unique; the owner shows in its records which it has taken up.
    """

    target: str
    kind: str
    value: str
    until_ms: int | None
    reason: str
    author: str
    at_ms: int
    intent_id: str


class IntentStore(Protocol):
    """Operators' intents, a hash per bucket."""

    def put(self, bucket: BucketName, intent: Intent) -> None:
        """Set or replace the standing intent of its target and kind."""
        ...

    def remove(self, bucket: BucketName, target: str, kind: str) -> bool:
        """Take one back; whether there was one."""
        ...

    def list(self, bucket: BucketName) -> Sequence[Intent]:
        """All intents of the bucket, expired ones left out (by `until_ms` and Redis' clock)."""
        ...
