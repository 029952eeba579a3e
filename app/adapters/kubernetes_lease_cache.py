"""What this process has seen of the buckets' Lease objects, and since when: when another's lease ends.

What must be true: a lease of another counts as ended only when its object has been seen without a change for
its whole duration, by our monotonic clock from when *we* saw the last one. Its holder counts from before it
sent that renewal, so it stopped earlier; and whoever takes it names the version that it has seen, so that a
renewal that we have missed refuses the taking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.errors import InvalidInput
from app.ports.lease_objects import LeaseNews, LeaseObject
from app.ports.store import BucketName, FencingToken, Holder
from app.protocols.bucket_lease import BucketLease, read_lease

UNREADABLE = "(cannot be read)"
"""Identity of the holder of a lease that can't be read: somebody may have it."""


@dataclass(slots=True)
class Seen:
    """One bucket's object.

    Attributes:
        item: None: there is none.
        lease: what it says; a free one where there is none; None: it can't be read.
        problem: why it can't be read, with the field's path.
        since: when its last renewal or change of hands was seen, monotonic seconds.
        version: of the last news, "" for none.
    """

    since: float
    item: LeaseObject | None = None
    lease: BucketLease | None = field(default_factory=BucketLease)
    problem: str = ""
    version: str = ""

    @property
    def holder(self) -> Holder | None:
        """Who has it, as far as the object tells; whether it has ended is another question."""
        if self.lease is None:
            return Holder(UNREADABLE, f"{UNREADABLE} {self.version}")
        return None if self.lease.is_free else Holder(self.lease.identity, self.lease.agent_id)

    @property
    def token(self) -> FencingToken:
        """The highest that the object tells."""
        return FencingToken(0 if self.lease is None else self.lease.highest)

    def is_of(self, holder: Holder, token: FencingToken) -> bool:
        """Whether the holder has it under this very token."""
        return self.lease is not None and self.holder == holder and self.lease.token == token


class SeenLeases:
    """All buckets' objects; until the first `take` of everything nothing is known.

    Args:
        duration_s: of our own leases; one that says that it lasts longer is believed.
        where: how errors call an object, by bucket.
    """

    def __init__(
        self,
        names: Sequence[BucketName],
        *,
        duration_s: float,
        where: Callable[[BucketName], str],
        monotonic: Callable[[], float],
    ) -> None:
        self._duration_s = duration_s
        self._where = where
        self._monotonic = monotonic
        begun = monotonic()
        self._seen = {name: Seen(begun) for name in names}
        self.is_begun = False

    def __getitem__(self, bucket: BucketName) -> Seen:
        return self._seen[bucket]

    def take(self, news: LeaseNews) -> None:
        """What the API server has told; of a list all that is not on it is gone."""
        for bucket, item, is_gone in news.changes:
            if news.is_whole or not self._is_older(bucket, item):
                self.take_one(bucket, None if is_gone else item, version_of(item))
        if news.is_whole:
            there = {bucket for bucket, _, _ in news.changes}
            for bucket in self._seen.keys() - there:
                # Whatever version comes next is news: of a server that was restored they begin anew.
                self.take_one(bucket, None).version = ""
            if not self.is_begun:
                self.begin()

    def begin(self) -> None:
        """From now on something is known: what is not there was not there at this moment."""
        self.is_begun = True
        now = self._monotonic()
        for seen in self._seen.values():
            seen.since = now

    def take_one(self, bucket: BucketName, item: LeaseObject | None, version: str = "") -> Seen:
        """The object as it is now, None where it is gone; the clock begins anew where it was renewed."""
        before = self._seen[bucket]
        lease: BucketLease | None = BucketLease()
        problem = ""
        if item is not None:
            try:
                lease = read_lease(item)
            except InvalidInput as err:
                lease, problem = None, f"{self._where(bucket)}: {err}; repair it or delete it"
            version = version_of(item)
        is_same = (
            (before.item is None) == (item is None)
            and lease is not None
            and before.lease is not None
            and before.lease.stamp == lease.stamp
        )
        since = before.since if is_same else self._monotonic()
        self._seen[bucket] = Seen(since, item, lease, problem, version or before.version)
        return self._seen[bucket]

    def remaining_s(self, bucket: BucketName) -> float:
        """Until it ends, if it is held; until it may be taken for one that nobody has, where it is not there.

        0 when it is over; for one that can't be read a whole duration, always.
        """
        seen = self._seen[bucket]
        if seen.lease is None:
            return self._duration_s
        if seen.item is not None and seen.lease.is_free:
            return 0.0
        lasts_s = max(self._duration_s, float(seen.lease.duration_s))
        return max(seen.since + lasts_s - self._monotonic(), 0.0)

    def silence_s(self) -> float:
        """How long the objects that are not there must be waited for: their holders may assert them."""
        absent = [bucket for bucket, seen in self._seen.items() if seen.item is None]
        return max(map(self.remaining_s, absent), default=0.0)

    def problems(self) -> list[str]:
        """Objects that can't be read, a sentence each."""
        return [seen.problem for seen in self._seen.values() if seen.problem]

    def _is_older(self, bucket: BucketName, item: LeaseObject) -> bool:
        """News that were on their way when we learnt something newer; only numbers can be compared."""
        told, known = version_of(item), self._seen[bucket].version
        are_numbers = all(text.isascii() and text.isdigit() for text in (told, known))
        return are_numbers and int(told) <= int(known)


def version_of(item: LeaseObject) -> str:
    """Its resourceVersion; "" where it is no text."""
    metadata = item.get("metadata")
    found = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""
