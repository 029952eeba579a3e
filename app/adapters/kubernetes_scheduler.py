"""The scheduler's pod that is in charge, followed by a watch (`spec/scheduler-protocol.md`)."""

from __future__ import annotations

import ipaddress
from queue import Empty, Queue

from app.adapters.kubernetes_api import ApiServer, JsonObject
from app.adapters.kubernetes_watch import MAX_EVENTS, Kind, ObjectWatch, WatchEvent
from app.ports.peers import SchedulerInfo
from app.ports.runtime import Clock, Monotonic

SWITCH_PAUSE_S = 5.0
"""A new scheduler takes over no sooner than this after the last switch."""


class PodSchedulerWatch:
    """The `SchedulerWatch` of clusters whose scheduler is a pod.

    The one in charge stays so for as long as its pod is ready; of several others the newest follows it.

    Args:
        namespace: of the pod.
        selector: its labels, such as `name=autoscale-scheduler`.
        port: where it is asked.
    """

    def __init__(self, api: ApiServer, namespace: str, selector: str, port: int, clock: Clock) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._port = port
        self._clock = clock
        self._watch: ObjectWatch | None = None
        self._events: Queue[WatchEvent] = Queue(MAX_EVENTS)
        self._ready: dict[str, tuple[str, SchedulerInfo]] = {}
        self._chosen: SchedulerInfo | None = None
        self._switched_at: Monotonic | None = None

    def current(self) -> SchedulerInfo | None:
        """See `SchedulerWatch.current`.

        Raises:
            PeerError: the pods can't be read; whoever was in charge stays.
        """
        self._follow()
        if self._chosen is not None and self._chosen.uid in self._ready:
            return self._ready[self._chosen.uid][1]
        now = self._clock.monotonic()
        if self._switched_at is not None and now - self._switched_at < SWITCH_PAUSE_S:
            return None
        newest = max(self._ready.values(), key=lambda each: (each[0], each[1].uid), default=None)
        if newest is None:
            return None
        self._chosen, self._switched_at = newest[1], now
        return self._chosen

    def _follow(self) -> None:
        if self._watch is None:
            self._list()
        while True:
            try:
                event = self._events.get_nowait()
            except Empty:
                break
            if event.kind is Kind.EXPIRED:
                self._list()
                return
            self._take(event)
        if self._watch is not None and self._watch.failures and (problem := self._watch.problem) is not None:
            raise problem

    def _list(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None
        self._events = Queue(MAX_EVENTS)
        watch = ObjectWatch(self._api, self._path, {"labelSelector": self._selector}, self._events)
        items = watch.read_all()
        self._ready = {}
        for item in items:
            self._take(WatchEvent(Kind.ADDED, item))
        watch.follow()
        self._watch = watch

    def _take(self, event: WatchEvent) -> None:
        metadata = event.item.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(uid, str):
            return
        ip = (
            None if event.kind is Kind.DELETED or metadata.get("deletionTimestamp") else _ready_ip(event.item)
        )
        if ip is None:
            self._ready.pop(uid, None)
            return
        host = f"[{ip}]" if ip.version == 6 else str(ip)
        info = SchedulerInfo(str(metadata.get("name"))[:253], uid, f"http://{host}:{self._port}")
        self._ready[uid] = (str(metadata.get("creationTimestamp")), info)


def _ready_ip(pod: JsonObject) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The pod's address, None while it is not ready."""
    match pod.get("status"):
        case {"podIP": str(text), "conditions": list(conditions)}:
            is_ready = any(
                isinstance(each, dict) and each.get("type") == "Ready" and each.get("status") == "True"
                for each in conditions
            )
            try:
                return ipaddress.ip_address(text) if is_ready else None
            except ValueError:
                return None
        case _:
            return None
