"""Rules that hold between values of the configuration.

Each gives the places that it is about and what is wrong; a place that is wrong by itself is not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.config.flower_section import is_loopback
from app.config.problems import Location
from app.config.settings import FileSettings


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that does not hold.

    Attributes:
        at: the place that is named in the message.
        beside: the other places that the rule looked at.
        problem: what is wrong, without any value that may be secret.
    """

    at: Location
    beside: tuple[Location, ...]
    problem: str


def breaches(settings: FileSettings) -> Iterator[Breach]:
    """All rules that do not hold."""
    yield from _ownership(settings)
    yield from _redis(settings)
    yield from _platform(settings)
    yield from _nodes(settings)
    yield from _billing(settings)
    yield from _scaling_events(settings)
    yield from _ports(settings)
    yield from _informant(settings)
    yield from _recording(settings)
    yield from _security(settings)
    yield from _flower(settings)


def _ownership(settings: FileSettings) -> Iterator[Breach]:
    own = settings.ownership
    renew: Location = ("ownership", "renewEverySeconds")
    give_up: Location = ("ownership", "giveUpAfterSeconds")
    duration: Location = ("ownership", "leaseDurationSeconds")
    if own.renew_every_seconds >= own.give_up_after_seconds:
        yield Breach(renew, (give_up,), "must be below .ownership.giveUpAfterSeconds")
    if own.give_up_after_seconds >= own.lease_duration_seconds:
        yield Breach(give_up, (duration,), "must be below .ownership.leaseDurationSeconds")


def _redis(settings: FileSettings) -> Iterator[Breach]:
    redis = settings.redis
    url: Location = ("redis", "url")
    if redis.password_file is not None and redis.url.has_password:
        problem = "must not be set beside a password in .redis.url"
        yield Breach(("redis", "passwordFile"), (url,), problem)
    if redis.is_sentinel and redis.master_name is None:
        yield Breach(("redis", "masterName"), (url,), "must be set: .redis.url names Sentinels")
    for name, value in (
        ("masterName", redis.master_name),
        ("sentinelPasswordFile", redis.sentinel_password_file),
    ):
        if value is not None and not redis.is_sentinel:
            yield Breach(("redis", name), (url,), "is for sentinel:// and sentinels:// only")
    yield from _redis_tls(settings)


def _redis_tls(settings: FileSettings) -> Iterator[Breach]:
    redis = settings.redis
    files = {
        "tlsCaFile": redis.tls_ca_file,
        "tlsCertFile": redis.tls_cert_file,
        "tlsKeyFile": redis.tls_key_file,
    }
    for name, value in files.items():
        if value is not None and not redis.is_tls:
            yield Breach(("redis", name), (("redis", "url"),), "is for rediss:// and sentinels:// only")
    cert, key = files["tlsCertFile"], files["tlsKeyFile"]
    if (cert is None) != (key is None):
        missing, given = ("tlsKeyFile", "tlsCertFile") if key is None else ("tlsCertFile", "tlsKeyFile")
        yield Breach(("redis", missing), (("redis", given),), f"must be set beside .redis.{given}")


def _platform(settings: FileSettings) -> Iterator[Breach]:
    platform = settings.platform
    kind: Location = ("platform", "kind")
    if platform.node_bound and platform.kind != "neonvm":
        yield Breach(("platform", "nodeBound"), (kind,), "is for platform neonvm only")
    if platform.observe_label == platform.enabled_label:
        problem = "must differ from .platform.enabledLabel"
        yield Breach(("platform", "observeLabel"), (("platform", "enabledLabel"),), problem)
    if platform.namespace is not None and settings.kubernetes.namespaces:
        namespaces: Location = ("kubernetes", "namespaces")
        yield Breach(namespaces, (("platform", "namespace"),), "must not be set beside .platform.namespace")


def _nodes(settings: FileSettings) -> Iterator[Breach]:
    seen: set[str] = set()
    for index, node in enumerate(settings.node_scheduler.nodes):
        place: Location = ("nodeScheduler", "nodes", index)
        if node.name in seen:
            yield Breach((*place, "name"), (), "another node has this name")
        seen.add(node.name)
        if node.reserved_milli_cpu >= node.milli_cpu:
            yield Breach((*place, "reservedCpu"), ((*place, "cpu"),), "must be below the node's cpu")
        if node.reserved_bytes >= node.size_bytes:
            yield Breach((*place, "reservedMemory"), ((*place, "memory"),), "must be below the node's memory")


def _billing(settings: FileSettings) -> Iterator[Breach]:
    billing = settings.billing
    if billing is None:
        for name, sink in (("s3", settings.metering.s3), ("file", settings.metering.file)):
            if sink is not None:
                problem = "must not be set without .billing: nothing is billed then"
                yield Breach(("metering", name), (("billing",),), problem)
        return
    collect: Location = ("billing", "collectEverySeconds")
    if billing.accumulate_every_seconds < billing.collect_every_seconds:
        problem = "must not be below .billing.collectEverySeconds"
        yield Breach(("billing", "accumulateEverySeconds"), (collect,), problem)
    names: Location = ("billing", "cpuMetricName")
    if billing.cpu_metric_name == billing.active_time_metric_name:
        problem = "must differ from .billing.cpuMetricName"
        yield Breach(("billing", "activeTimeMetricName"), (names,), problem)


def _scaling_events(settings: FileSettings) -> Iterator[Breach]:
    seen = {"http", "s3", "file"}
    for index, webhook in enumerate(settings.scaling_events.webhooks):
        if webhook.name in seen:
            problem = "another target has this name (http, s3 and file are those of the sinks)"
            yield Breach(("scalingEvents", "webhooks", index, "name"), (), problem)
        seen.add(webhook.name)


def _ports(settings: FileSettings) -> Iterator[Breach]:
    dump = settings.dump_state
    if dump is not None and dump.port and dump.port == settings.web.port:
        yield Breach(("dumpState", "port"), (("web", "port"),), "must differ from .web.port")


def _informant(settings: FileSettings) -> Iterator[Breach]:
    own = settings.informant
    if own.retry_max_wait_seconds < own.retry_min_wait_seconds:
        shortest: Location = ("informant", "retryMinWaitSeconds")
        problem = "must not be below .informant.retryMinWaitSeconds"
        yield Breach(("informant", "retryMaxWaitSeconds"), (shortest,), problem)
    if own.register_agents and settings.web.port in own.port_range():
        yield Breach(("informant", "ports"), (("web", "port"),), "must not hold .web.port")


def _recording(settings: FileSettings) -> Iterator[Breach]:
    recording = settings.recording
    if recording.vms and recording.directory is None:
        yield Breach(("recording", "directory"), (("recording", "vms"),), "must be set beside .recording.vms")


def _security(settings: FileSettings) -> Iterator[Breach]:
    servers = settings.security.servers
    for name, server in (
        ("web", servers.web),
        ("nodeScheduler", servers.node_scheduler),
        ("agents", servers.agents),
    ):
        if server.tls_key_file is not None and server.tls_cert_file is None:
            place: Location = ("security", "servers", name)
            problem = "must be set beside tlsKeyFile"
            yield Breach((*place, "tlsCertFile"), ((*place, "tlsKeyFile"),), problem)


def _flower(settings: FileSettings) -> Iterator[Breach]:
    flower = settings.flower
    host: Location = ("flower", "host")
    auth_file: Location = ("flower", "authFile")
    if not is_loopback(flower.host) and flower.auth_file is None:
        problem = "must be set for others than this machine to look at Flower: see .flower.host"
        yield Breach(auth_file, (host,), problem)
    cert, key = flower.tls_cert_file, flower.tls_key_file
    if (cert is None) != (key is None):
        missing, given = ("tlsKeyFile", "tlsCertFile") if key is None else ("tlsCertFile", "tlsKeyFile")
        yield Breach(("flower", missing), (("flower", given),), f"must be set beside .flower.{given}")
