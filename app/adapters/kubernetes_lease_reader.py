"""The buckets' Lease objects for readers that hold none: one list, one look at Redis.

A reader has not watched, so it can't know when another's lease ends. Whoever has a live heartbeat, or a lease
that has not ended by the object's own times, is shown as its holder; nothing is decided by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.kubernetes_lease_cache import UNREADABLE
from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
from app.adapters.kubernetes_leases import unix_ms
from app.errors import InvalidInput, LeasesUnavailable, PeerError
from app.ports.presence import Presence, PresenceView
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView
from app.protocols.bucket_lease import BucketLease, read_lease


class KubernetesLeaseReader:
    """The `LeaseReader` of one fleet.

    Args:
        names: all buckets, in order.
        duration_s: of a lease.
        timeout_s: how long the API server may take.
    """

    def __init__(
        self,
        objects: KubernetesLeaseObjects,
        presence: Presence,
        names: Sequence[BucketName],
        *,
        duration_s: float,
        timeout_s: float,
    ) -> None:
        self._objects = objects
        self._presence = presence
        self._names = tuple(names)
        self._duration_ms = round(duration_s * 1000)
        self._timeout_s = timeout_s

    def stored_total(self) -> int | None:
        """See `LeaseReader.stored_total`."""
        return self._presence.stored_total()

    def view(self) -> LeaseView:
        """See `LeaseReader.view`; objects that are missing are waited for, a lease duration at most."""
        try:
            news = self._objects.list_all(timeout_s=self._timeout_s)
        except PeerError as err:
            raise LeasesUnavailable(err.peer, err.problem) from err
        presence = self._presence.look()
        items = {bucket: item for bucket, item, _ in news.changes}
        rows = {}
        for bucket in self._names:
            try:
                lease = read_lease(items.get(bucket, {}))
            except InvalidInput as err:
                holder = Holder(f"{UNREADABLE} {err}", UNREADABLE)
                rows[bucket] = LeaseRow(bucket, holder, FencingToken(0), self._duration_ms)
                continue
            rows[bucket] = presence.in_redis.get(bucket) or self._row(bucket, lease, presence)
        is_missing = any(name not in items for name in self._names)
        return LeaseView(
            leases=rows,
            live_agents=presence.live_agents,
            renewed=frozenset(),
            redis_ms=presence.redis_ms,
            draining=presence.draining,
            silence_ms=self._duration_ms if is_missing else 0,
        )

    def _row(self, bucket: BucketName, lease: BucketLease, presence: PresenceView) -> LeaseRow:
        token = FencingToken(lease.highest)
        lasts_ms = max(self._duration_ms, lease.duration_s * 1000)
        rest_ms = min(max(unix_ms(lease.renewed) + lasts_ms - presence.redis_ms, 0), lasts_ms)
        if lease.agent_id in presence.live_agents:
            rest_ms = max(rest_ms, 1)
        if lease.is_free or not rest_ms:
            return LeaseRow(bucket, None, token, 0)
        holder = Holder(lease.identity, lease.agent_id)
        return LeaseRow(bucket, holder, token, rest_ms, unix_ms(lease.acquired))
