"""The Services and EndpointSlices of a fleet's buckets in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from app.ports.store import BucketName, FencingToken


class BucketServices(Protocol):
    """Written by the holders of the buckets."""

    def publish(
        self,
        held: Mapping[BucketName, FencingToken],
        port: int,
        limit_s: Callable[[BucketName, FencingToken], float | None],
    ) -> Mapping[BucketName, str]:
        """Let the names of the buckets lead to us, on this port; what is right already is not written.

        Args:
            held: our buckets, with the tokens under which we hold them.
            limit_s: asked before each request for a bucket: how long it may take; None: it is ours no more.

        Returns:
            Why it could not be done, by bucket; those that are ours no more are left out.

        Raises:
            PeerError: what there is could not be read; nothing was written.
        """
        ...
