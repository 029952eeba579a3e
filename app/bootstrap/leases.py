"""Where the buckets' leases are: in Redis, or in a Kubernetes API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.adapters.clock import SystemClock
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.bootstrap.identity import own_ip
from app.cluster.ring import bucket_names
from app.config import Settings
from app.ports.runtime import Concurrency
from app.ports.store import BucketName, LeaseReader, LeaseStore
from app.protocols.bucket_lease import fleet_name
from app.services.agent_part import AgentPart
from app.services.bucket_names import BucketNames, HasPort
from app.services.guarding import Guards
from app.services.lease_problems import LeaseProblems

if TYPE_CHECKING:
    from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
    from app.adapters.redis_presence import RedisPresence

READ_S = 5.0
"""For an operator's look at the leases."""

HTTP_PORT = 80
"""Of buckets' Services where workers listen on any free port."""

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod finds the name of its own namespace."""


def build_lease_reader(
    settings: Settings, connection: RedisConnection, *, timeout_s: float = READ_S
) -> LeaseReader:
    """Reads leases for those that hold none; connects at the first call.

    Args:
        timeout_s: how long an API server may take; Redis' limit is the connection's.
    """
    names, duration_s = _names(settings), settings.ownership.lease_duration_seconds
    if settings.ownership.leases == "redis":
        return RedisLeases(connection, RedisKeys(settings.key_prefix), names, duration_s=duration_s)
    # Imported here: only where leases are in a cluster.
    from app.adapters.kubernetes_lease_reader import KubernetesLeaseReader

    presence = _presence(settings, connection)
    objects = _objects(settings)
    return KubernetesLeaseReader(objects, presence, names, duration_s=duration_s, timeout_s=timeout_s)


def build_lease_store(settings: Settings, connection: RedisConnection) -> tuple[LeaseStore, list[AgentPart]]:
    """A worker's leases, and what tells of their troubles; connects at the first call."""
    names, duration_s = _names(settings), settings.ownership.lease_duration_seconds
    if settings.ownership.leases == "redis":
        return RedisLeases(connection, RedisKeys(settings.key_prefix), names, duration_s=duration_s), []
    from app.adapters.kubernetes_leases import KubernetesLeases

    leases = KubernetesLeases(
        _objects(settings),
        _presence(settings, connection),
        (lease_namespace(settings), fleet_name(settings.key_prefix)),
        names,
        duration_s=duration_s,
        monotonic=SystemClock().monotonic,
    )
    return leases, [LeaseProblems(leases.problems)]


def build_bucket_names(
    settings: Settings, guards: Guards, server: HasPort, concurrency: Concurrency
) -> list[AgentPart]:
    """What lets buckets' names in the cluster lead to their holder, if that is switched on."""
    if not settings.ownership.services:
        return []
    from app.adapters.kubernetes_bucket_services import KubernetesBucketServices, ServicePlace
    from app.bootstrap.api_server import build_api_server

    place = ServicePlace(
        lease_namespace(settings),
        fleet_name(settings.key_prefix),
        own_ip(settings.env.pod_ip, settings.web.host),
        settings.web.port or HTTP_PORT,
    )
    api = build_api_server(settings)
    return [BucketNames(KubernetesBucketServices(api, place), guards, server, concurrency)]


def lease_namespace(settings: Settings) -> str:
    """Where the fleet's leases are: as configured, the pod's own namespace, or `default`."""
    if settings.kubernetes.lease_namespace is not None:
        return settings.kubernetes.lease_namespace
    try:
        return POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except (OSError, ValueError):
        return "default"


def _names(settings: Settings) -> list[BucketName]:
    return [BucketName(name) for name in bucket_names(settings.ownership.buckets)]


def _presence(settings: Settings, connection: RedisConnection) -> RedisPresence:
    from app.adapters.redis_presence import RedisPresence

    return RedisPresence(
        connection,
        RedisKeys(settings.key_prefix),
        _names(settings),
        duration_s=settings.ownership.lease_duration_seconds,
    )


def _objects(settings: Settings) -> KubernetesLeaseObjects:
    from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
    from app.bootstrap.api_server import build_api_server

    api = build_api_server(settings)
    fleet = fleet_name(settings.key_prefix)
    return KubernetesLeaseObjects(api, lease_namespace(settings), fleet, _names(settings))
