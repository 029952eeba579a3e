"""The leases that this worker holds, and the guards that work begun under them asks."""

from __future__ import annotations

from dataclasses import replace

from app.cluster.lease import Lease
from app.errors import OwnershipLost
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken


class LeaseGuard:
    """A held lease as effects see it; once lost, it stays lost, also if the bucket is taken anew."""

    def __init__(self, leases: HeldLeases, bucket: BucketName, token: FencingToken) -> None:
        self._leases = leases
        self._bucket = bucket
        self._token = token

    @property
    def token(self) -> FencingToken:
        """The fencing token that goes with every effect."""
        return self._token

    def limit_s(self, setting_s: float) -> float:
        """Seconds that a call begun now may take, above 0; a setting of 0: only the lease limits it.

        Raises:
            OwnershipLost: half a second or less is left, or the lease is gone.
        """
        return self._leases.limit_s(self._bucket, self._token, setting_s)

    def check(self) -> None:
        """Raises OwnershipLost unless work may still be begun."""
        self.limit_s(0)


class HeldLeases:
    """One lease per bucket that we hold; knows the time, and not Redis."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[BucketName, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, bucket: object) -> bool:
        return bucket in self._leases

    def all(self) -> dict[BucketName, Lease]:
        """A copy, by bucket."""
        return dict(self._leases)

    def get(self, bucket: BucketName) -> Lease | None:
        """The lease of a bucket, if it is held."""
        return self._leases.get(bucket)

    def add(self, lease: Lease) -> None:
        """Hold it, in place of an earlier one of its bucket."""
        self._leases[BucketName(lease.bucket)] = lease

    def renew(self, lease: Lease, sent: float) -> None:
        """Count it from `sent` on."""
        self.add(replace(lease, counted_from=sent))

    def remove(self, bucket: BucketName) -> Lease | None:
        """Hold it no more; what was held."""
        return self._leases.pop(bucket, None)

    def has(self, bucket: BucketName, token: FencingToken) -> bool:
        """Whether the bucket is held, and under this very token."""
        lease = self._leases.get(bucket)
        return lease is not None and lease.token == token

    def given_up(self) -> list[BucketName]:
        """Buckets whose leases have gone without renewal for too long."""
        now = self._clock.monotonic()
        return [bucket for bucket, lease in self._leases.items() if lease.is_given_up(now)]

    def guard(self, bucket: BucketName) -> LeaseGuard:
        """See `Ownership.guard`."""
        lease = self._leases.get(bucket)
        if lease is None:
            raise OwnershipLost(bucket, "is not held here")
        return LeaseGuard(self, bucket, FencingToken(lease.token))

    def limit_s(self, bucket: BucketName, token: FencingToken, setting_s: float) -> float:
        """See `LeaseGuard.limit_s`."""
        lease = self._leases.get(bucket)
        if lease is None or lease.token != token:
            raise OwnershipLost(bucket, f"the lease with token {token} is gone")
        limit = lease.call_limit(setting_s, self._clock.monotonic())
        if limit is None:
            raise OwnershipLost(bucket, "the lease is about to end, or has ended")
        return limit
