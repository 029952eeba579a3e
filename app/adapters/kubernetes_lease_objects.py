"""A fleet's Lease objects at an API server: followed by one watch, written by one request each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_watch import MAX_EVENTS, Kind, ObjectWatch, WatchEvent
from app.errors import PeerError, PeerRefused, PeerUnreachable
from app.ports.lease_objects import LeaseNews, LeaseObject
from app.ports.store import BucketName
from app.protocols.bucket_lease import API, FLEET_LABEL, object_name
from app.protocols.managed_fields import OUR_MANAGER

AT_ONCE = 4
"""Requests under way; the pool keeps as many connections."""

TOLD_FAILURES = 3
"""Tries in a row to begin the watch, after which its failure is told."""

RIGHTS = "get, create and update"


class KubernetesLeaseObjects:
    """`app.ports.lease_objects.LeaseObjects` over an API server.

    Args:
        namespace: of the objects.
        fleet: what they are labelled with, and named after.
        names: of all buckets.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        fleet: str,
        names: Sequence[BucketName],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._path = f"{API}/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._selectors = {"labelSelector": f"{FLEET_LABEL}={fleet}"}
        self._objects = {bucket: object_name(bucket, fleet) for bucket in names}
        self._buckets = {name: bucket for bucket, name in self._objects.items()}
        self._monotonic = monotonic
        self._events: Queue[WatchEvent] = Queue(MAX_EVENTS)
        self._watch: ObjectWatch | None = None

    @property
    def peer(self) -> str:
        """See `LeaseObjects.peer`."""
        return self._api.peer

    @property
    def problem(self) -> str:
        """See `LeaseObjects.problem`."""
        watch = self._watch
        if watch is None or watch.failures < TOLD_FAILURES or watch.problem is None:
            return ""
        return f"{watch.problem.peer}: leases can't be watched: {watch.problem.problem}"

    def list_all(self, *, timeout_s: float, may_follow: bool = False) -> LeaseNews:
        """All objects as they are now, in pages; with `may_follow` the watch goes on from there.

        Args:
            timeout_s: of one page.

        Raises:
            PeerError: as `news`.
        """
        events: Queue[WatchEvent] = Queue(MAX_EVENTS)
        watch = ObjectWatch(self._api, self._path, self._selectors, events)
        found = [WatchEvent(Kind.ADDED, item) for item in watch.read_all(timeout_s=timeout_s)]
        if may_follow:
            watch.follow()
            self._watch, self._events = watch, events
        return self._told(True, found)

    def news(self, *, timeout_s: float) -> LeaseNews:
        """See `LeaseObjects.news`."""
        if self._watch is None:
            return self.list_all(timeout_s=timeout_s, may_follow=True)
        found: list[WatchEvent] = []
        try:
            while len(found) < MAX_EVENTS:
                found.append(self._events.get_nowait())
        except Empty:
            pass
        if any(event.kind is Kind.EXPIRED for event in found):
            self._watch = None
            return self.list_all(timeout_s=timeout_s, may_follow=True)
        return self._told(False, found)

    def write(
        self, wanted: Mapping[BucketName, LeaseObject], *, timeout_s: float
    ) -> Mapping[BucketName, LeaseObject | PeerError]:
        """See `LeaseObjects.write`; what has not been begun when the time is over is not begun."""
        deadline = self._monotonic() + timeout_s

        def write(bucket: BucketName) -> LeaseObject | PeerError:
            rest_s = deadline - self._monotonic()
            if rest_s <= 0:
                return PeerUnreachable(self._api.peer, "others took all the time")
            try:
                return self._write(bucket, wanted[bucket], rest_s)
            except PeerError as err:
                return err

        if len(wanted) < 2:
            return {bucket: write(bucket) for bucket in wanted}
        with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), thread_name_prefix="leases") as pool:
            return dict(zip(wanted, pool.map(write, wanted), strict=True))

    def read(self, bucket: BucketName, *, timeout_s: float) -> LeaseObject | None:
        """See `LeaseObjects.read`."""
        try:
            return self._api.call("GET", f"{self._path}/{self._objects[bucket]}", timeout_s=timeout_s)
        except PeerRefused as err:
            if err.code == 404:
                return None
            raise self._with_right(err) from err

    def close(self) -> None:
        """End the watch; its thread ends with its request, within a minute."""
        if self._watch is not None:
            self._watch.close()
        self._api.close()

    def _write(self, bucket: BucketName, item: LeaseObject, timeout_s: float) -> LeaseObject:
        """Make it, or replace the one of its version and uid.

        Without the uid a replacement of one that is gone would make it anew: an API server does that to
        Leases, whatever version is named. With it that is a conflict, as any other.
        """
        is_new = not item["metadata"].get("resourceVersion")
        path = self._path if is_new else f"{self._path}/{self._objects[bucket]}"
        query = {"timeout": f"{max(timeout_s, 0.1):.1f}s", "fieldManager": OUR_MANAGER}
        try:
            return self._api.call(
                "POST" if is_new else "PUT", path, query=query, body=item, timeout_s=timeout_s
            )
        except PeerRefused as err:
            raise self._with_right(err) from err

    def _told(self, is_whole: bool, events: Sequence[WatchEvent]) -> LeaseNews:
        changes = []
        for event in events:
            metadata = event.item.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            bucket = self._buckets.get(name) if isinstance(name, str) else None
            if bucket is not None:
                changes.append((bucket, event.item, event.kind is Kind.DELETED))
        return LeaseNews(is_whole, tuple(changes))

    def _with_right(self, err: PeerRefused) -> PeerRefused:
        if err.code != 403:
            return err
        right = f"the rights {RIGHTS} on leases.coordination.k8s.io in namespace {self._namespace} are needed"
        return PeerRefused(err.peer, f"{err.problem} ({right})", code=403)
