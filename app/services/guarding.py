"""What every task and every effect asks before it begins: is the lease ours, and for how long."""

from __future__ import annotations

from typing import Protocol

from app.ports.store import BucketName, FencingToken


class Guard(Protocol):
    """A held lease, as effects see it (`spec/forwarder.md`, "Leases in Redis")."""

    @property
    def token(self) -> FencingToken:
        """The fencing token that goes with every effect."""
        ...

    def limit_s(self, setting_s: float) -> float:
        """How long a call may take: the setting, or what the lease leaves; 0 means: only the lease limits.

        Raises:
            OwnershipLost: there is less than half a second left, or the lease is gone.
        """
        ...

    def check(self) -> None:
        """Raises OwnershipLost unless work may still be begun."""
        ...


class Guards(Protocol):
    """Where guards come from: the ownership service."""

    def guard(self, bucket: BucketName) -> Guard:
        """The guard of a bucket that we hold.

        Raises:
            OwnershipLost: we don't hold it.
        """
        ...
