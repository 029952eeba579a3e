"""Buckets' Services and EndpointSlices at an API server: two lists, then a request for what is not right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Queue

from app.adapters.kubernetes_api import ApiServer, JsonObject
from app.adapters.kubernetes_watch import MAX_EVENTS, ObjectWatch, WatchEvent
from app.errors import PeerError, PeerRefused
from app.ports.store import BucketName, FencingToken
from app.protocols.bucket_lease import FLEET_LABEL, object_name
from app.protocols.bucket_service import (
    BucketEndpoint,
    other_slice_for,
    service_for,
    slice_for,
    slice_name,
)
from app.protocols.managed_fields import OUR_MANAGER

LIST_S = 5.0
"""Of one page of a list."""

Limit = Callable[[BucketName, FencingToken], float | None]


@dataclass(frozen=True, slots=True)
class ServicePlace:
    """Where the objects are, and where they lead to.

    Attributes:
        address: our own IP address.
        service_port: what Services are asked at.
    """

    namespace: str
    fleet: str
    address: str
    service_port: int


class KubernetesBucketServices:
    """`app.ports.bucket_services.BucketServices` over an API server."""

    def __init__(self, api: ApiServer, place: ServicePlace) -> None:
        self._api = api
        self._place = place
        self._services = f"/api/v1/namespaces/{place.namespace}/services"
        self._slices = f"/apis/discovery.k8s.io/v1/namespaces/{place.namespace}/endpointslices"

    def publish(
        self, held: Mapping[BucketName, FencingToken], port: int, limit_s: Limit
    ) -> Mapping[BucketName, str]:
        """See `BucketServices.publish`; a version that is another by now is left for the next time."""
        services, slices = self._list(self._services), self._list(self._slices)
        problems = {}
        for bucket, token in held.items():
            at = BucketEndpoint(
                object_name(bucket, self._place.fleet),
                self._place.namespace,
                self._place.fleet,
                self._place.address,
                port,
                self._place.service_port,
                token,
            )
            other = slices.get(slice_name(at.name, is_ipv6=not at.is_ipv6))
            wanted = (
                (self._services, service_for(services.get(at.name), at)),
                (self._slices, slice_for(slices.get(at.slice_name), at)),
                (self._slices, other_slice_for(other, at)),
            )
            try:
                for path, item in wanted:
                    rest_s = limit_s(bucket, token)
                    if rest_s is None:
                        break
                    if item is not None:
                        self._write(path, item, rest_s)
            except PeerError as err:
                problems[bucket] = str(err)
        return problems

    def _list(self, path: str) -> dict[str, JsonObject]:
        """The fleet's objects, by name."""
        selectors = {"labelSelector": f"{FLEET_LABEL}={self._place.fleet}"}
        events: Queue[WatchEvent] = Queue(MAX_EVENTS)
        items = ObjectWatch(self._api, path, selectors, events).read_all(timeout_s=LIST_S)
        named = {}
        for item in items:
            metadata = item.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if isinstance(name, str):
                named[name] = item
        return named

    def _write(self, path: str, item: JsonObject, timeout_s: float) -> None:
        metadata = item["metadata"]
        is_new = not metadata.get("resourceVersion")
        query = {"timeout": f"{max(timeout_s, 0.1):.1f}s", "fieldManager": OUR_MANAGER}
        target = path if is_new else f"{path}/{metadata['name']}"
        try:
            self._api.call("POST" if is_new else "PUT", target, query=query, body=item, timeout_s=timeout_s)
        except PeerRefused as err:
            kind = path.rpartition("/")[2]
            if err.code == 409 and is_new:
                told = (
                    f"{kind} {metadata['namespace']}/{metadata['name']} is there and does not say "
                    f"that it is ours (label {FLEET_LABEL}: {self._place.fleet}); it is left alone"
                )
                raise PeerRefused(err.peer, told, code=409) from err
            if err.code == 403:
                right = f"the rights list, create and update on {kind} in namespace {metadata['namespace']}"
                raise PeerRefused(err.peer, f"{err.problem} ({right} are needed)", code=403) from err
            raise
