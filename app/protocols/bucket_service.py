"""A bucket's Service and EndpointSlice: a name in the cluster that leads to the bucket's holder.

As the stat forwarder of the reference keeps them: called as the bucket, without a selector, one port `http`;
written by whoever holds the bucket, deleted by nobody. The EndpointSlice tells the fencing token that it was
written under, so that an earlier holder leaves it alone.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from app.protocols.bucket_lease import FLEET_LABEL, TOKEN_ANNOTATION
from app.protocols.object_fields import Object, inner

PORT_NAME = "http"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "vmscaler"

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BucketEndpoint:
    """Where a bucket's holder is reached.

    Attributes:
        name: of the Service (`app.protocols.bucket_lease.object_name`).
        address: an IP address of the holder.
        port: where it listens; `service_port` is what the Service is asked at.
        token: the holder's fencing token.
    """

    name: str
    namespace: str
    fleet: str
    address: str
    port: int
    service_port: int
    token: int

    @property
    def is_ipv6(self) -> bool:
        """Of which kind the address is."""
        return ipaddress.ip_address(self.address).version == 6

    @property
    def slice_name(self) -> str:
        """A slice has addresses of one kind for its whole life."""
        return slice_name(self.name, is_ipv6=self.is_ipv6)


def slice_name(service: str, *, is_ipv6: bool) -> str:
    """The EndpointSlice of a Service for one kind of addresses."""
    return f"{service}-ipv6" if is_ipv6 else service


def service_for(before: Object | None, at: BucketEndpoint) -> JsonObject | None:
    """The Service to create or to put in place of what is there; None: it is as it should be."""
    ports = [{"name": PORT_NAME, "port": at.service_port, "protocol": "TCP", "targetPort": PORT_NAME}]
    if before is None:
        metadata = {"name": at.name, "namespace": at.namespace, "labels": {FLEET_LABEL: at.fleet}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
    spec = inner(before, "spec")
    if not spec.get("selector") and _has_ports(spec.get("ports"), ports):
        return None
    kept = {name: value for name, value in spec.items() if name != "selector"}
    return {**before, "apiVersion": "v1", "kind": "Service", "spec": {**kept, "ports": ports}}


def slice_for(before: Object | None, at: BucketEndpoint) -> JsonObject | None:
    """The EndpointSlice likewise; None also where a newer holder has written it."""
    body = {
        "addressType": "IPv6" if at.is_ipv6 else "IPv4",
        "endpoints": [{"addresses": [at.address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": at.port, "protocol": "TCP"}],
    }
    return _slice(before, at, at.slice_name, body)


def other_slice_for(before: Object | None, at: BucketEndpoint) -> JsonObject | None:
    """The slice of the other kind of addresses, if there is one: without any."""
    if before is None:
        return None
    body = {"endpoints": [], "ports": [{"name": PORT_NAME, "port": at.port, "protocol": "TCP"}]}
    return _slice(before, at, slice_name(at.name, is_ipv6=not at.is_ipv6), body)


def written_under(item: Object) -> int:
    """The token that a slice tells; 0 where it tells none that can be read."""
    found = inner(inner(item, "metadata"), "annotations").get(TOKEN_ANNOTATION)
    is_number = isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= 16
    return int(str(found)) if is_number else 0


def _slice(before: Object | None, at: BucketEndpoint, name: str, body: JsonObject) -> JsonObject | None:
    item: Object = before if before is not None else {"metadata": {"name": name, "namespace": at.namespace}}
    if written_under(item) > at.token:
        return None
    metadata = inner(item, "metadata")
    ours = {SERVICE_LABEL: at.name, MANAGER_LABEL: MANAGER, FLEET_LABEL: at.fleet}
    labels = {**inner(metadata, "labels"), **ours}
    annotations = {**inner(metadata, "annotations"), TOKEN_ANNOTATION: str(at.token)}
    wanted = {
        **item,
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        **body,
    }
    kinds = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"]}
    # A list's items say neither.
    return None if before is not None and {**before, **kinds} == wanted else wanted


def _has_ports(found: object, wanted: list[JsonObject]) -> bool:
    """Whether these are the ports, whatever else the API server has filled in."""
    if not isinstance(found, list) or len(found) != len(wanted):
        return False
    return all(
        isinstance(port, dict) and all(port.get(name) == value for name, value in want.items())
        for port, want in zip(found, wanted, strict=True)
    )
