"""Leases in an API server for several workers in one process: each has a store of its own, as in a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.adapters.kubernetes_leases import KubernetesLeases
from app.ports.presence import Presence
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, Holder, LeaseView
from tests.fakes.lease_objects import LeaseServer, MemoryLeaseObjects


class WorkersLeases:
    """A `LeaseStore` that asks the store of whoever calls.

    Attributes:
        objects: by agent id: what the worker's requests and its watch go through.
        stores: by agent id.
    """

    def __init__(
        self,
        server: LeaseServer,
        presence: Presence,
        clock: Clock,
        names: Sequence[str],
        *,
        duration_s: float,
    ) -> None:
        self._server, self._presence, self._clock = server, presence, clock
        self._names, self._duration_s = names, duration_s
        self.objects: dict[str, MemoryLeaseObjects] = {}
        self.stores: dict[str, KubernetesLeases] = {}

    def check_total(self, total: int) -> None:
        self._presence.check_total(total)

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        return self.of(holder.agent_id).round(holder, renew)

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        return self.of(holder.agent_id).acquire(holder, buckets, seen)

    def release(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> None:
        self.of(holder.agent_id).release(holder, held)

    def leave(self, holder: Holder) -> None:
        self.of(holder.agent_id).leave(holder)

    def of(self, agent_id: str) -> KubernetesLeases:
        """The store of one worker, made at its first call."""
        if agent_id not in self.stores:
            objects = self.objects[agent_id] = MemoryLeaseObjects(self._server)
            self.stores[agent_id] = KubernetesLeases(
                objects,
                self._presence,
                ("ns", "vmscaler"),
                self._names,
                duration_s=self._duration_s,
                monotonic=self._clock.monotonic,
            )
        return self.stores[agent_id]
