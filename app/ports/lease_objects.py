"""The Lease objects of one fleet at an API server, by bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.errors import PeerError
from app.ports.store import BucketName

LeaseObject = dict[str, Any]
"""A Lease as JSON; untrusted."""


@dataclass(frozen=True, slots=True)
class LeaseNews:
    """What has changed at the API server since the last look, in order.

    Attributes:
        is_whole: `changes` are all objects that there are; what is not among them is gone.
        changes: (bucket, the object, whether it is gone).
    """

    is_whole: bool
    changes: tuple[tuple[BucketName, LeaseObject, bool], ...]


class LeaseObjects(Protocol):
    """For one job at a time but for `write` and `read`; nothing connects before the first call."""

    @property
    def peer(self) -> str:
        """How errors call the API server."""
        ...

    @property
    def problem(self) -> str:
        """Why news may be old; "" while all is well."""
        ...

    def news(self, *, timeout_s: float) -> LeaseNews:
        """Without waiting, but for the first time and where events were missed: then all are listed.

        Raises:
            PeerError: they could not be listed.
        """
        ...

    def write(
        self, wanted: Mapping[BucketName, LeaseObject], *, timeout_s: float
    ) -> Mapping[BucketName, LeaseObject | PeerError]:
        """Create those that have no resourceVersion, replace the others if theirs is still in force.

        One request each, several at once; for each what is there now, or what went wrong: `PeerRefused` with
        409 (another version, or there already), 404 (gone) or another status; `PeerTimedOut`: it may have
        taken effect; `PeerUnreachable`.
        """
        ...

    def read(self, bucket: BucketName, *, timeout_s: float) -> LeaseObject | None:
        """The object as it is now; None: there is none. Raises PeerError."""
        ...
