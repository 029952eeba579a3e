"""What a change of the number of buckets needs of Redis; no worker may be at work meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.ports.store import BucketName
from app.ports.vm import VmKey


@dataclass(frozen=True, slots=True)
class Contents:
    """What is stored for the VMs of one bucket, as it is stored.

    Attributes:
        records: by VM key; `intents` by VM key and field; those for all VMs of the bucket are `for_all`.
        trails: VMs that have an audit trail, or a last record from before they were deleted.
        stats: waiting for the owner, oldest first.
    """

    records: Mapping[VmKey, bytes]
    intents: Mapping[VmKey, tuple[str, ...]]
    for_all: Mapping[str, bytes]
    trails: frozenset[VmKey]
    stats: tuple[bytes, ...]

    @property
    def keys(self) -> frozenset[VmKey]:
        """All VMs that have anything stored."""
        return frozenset(self.records.keys() | self.intents.keys() | self.trails)


class ResizeStore(Protocol):
    """Each call is one atomic step that may be repeated, and raises `StoreUnavailable` without an answer."""

    def stored(self) -> str | None:
        """The number of buckets as `app.cluster.bucket_total` reads it; None before the first start."""
        ...

    def at_work(self, old: int) -> Mapping[str, str]:
        """Identity by agent id of those that live or hold a lease; the identity may be unknown (``)."""
        ...

    def begin(self, old: int, new: int) -> bool:
        """Bar all workers, unless one is at work (then False): mark the resize, raise all fences and seqs."""
        ...

    def contents(self, old: int) -> Mapping[BucketName, Contents]:
        """What is still under the old names."""
        ...

    def move_vm(
        self, key: VmKey, old: BucketName, new: BucketName, record: bytes | None, intents: Sequence[str]
    ) -> None:
        """Everything of one VM; `record` takes the place of the one that is stored."""
        ...

    def spread_intents(
        self, intents: Mapping[str, bytes], old: Sequence[BucketName], new: Sequence[BucketName]
    ) -> None:
        """Intents for all VMs: from all old buckets to all new ones."""
        ...

    def move_stat(self, stat: bytes, old: BucketName, new: BucketName | None) -> None:
        """The oldest such stat, to the end of another bucket's; None: drop it."""
        ...

    def move_billing(
        self, old: Sequence[BucketName], new: Sequence[BucketName], owner: Callable[[VmKey], BucketName]
    ) -> None:
        """Meters to the buckets of their VMs, events that wait for sinks to any; may be repeated."""
        ...

    def drop_tasks(self, old: int) -> int:
        """Ticks and scaling tasks that wait for the old owners; how many there were."""
        ...

    def finish(self, old: int, new: int) -> None:
        """Let workers with the new number start; forget the old leases."""
        ...
