"""The sections that are ours alone: ownership, Redis, the platform, the built-in scheduler, our servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from app.config.addresses import Host, HttpUrl, PortRange, parse_port_range
from app.config.fields import OwnPort, PeerPort, Seconds, Section, Text, setting
from app.config.quantities import ComputeUnitSettings, Cpu, ReservedCpu, ReservedSize, Size
from app.errors import ConfigurationError

MAX_SECRET_BYTES = 4096
"""A password or token file may hold this much."""


def read_secret(path: str, where: str) -> str:
    """The password or token in a file, without the white space around it.

    Args:
        path: the file; read anew at each call.
        where: the field that names it, for the error.

    Raises:
        ConfigurationError: the file can't be read, is empty, or too long to be a secret.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SECRET_BYTES + 1)
        secret = content.decode().strip()
    except OSError as error:
        raise ConfigurationError([f"{where}: the file can't be read: {error.strerror}"]) from None
    except ValueError:
        raise ConfigurationError([f"{where}: the file is not text, or its name is none"]) from None
    if not secret or len(content) > MAX_SECRET_BYTES:
        raise ConfigurationError([f"{where}: the file is empty or longer than {MAX_SECRET_BYTES} bytes"])
    return secret


class OwnershipSettings(Section):
    """Buckets and their leases (`spec/forwarder.md`); renewal < giving up < duration."""

    buckets: Annotated[int, Field(ge=1, le=2048)] = setting(
        16, "number of buckets; kept in Redis at the first start, another number is refused then"
    )
    leases: Literal["redis", "kubernetes"] = setting(
        "redis", "where leases are: redis, or kubernetes (Lease objects, see `kubernetes.leaseNamespace`)"
    )
    services: bool = setting(
        False, "keep a Service and an EndpointSlice beside each bucket's lease that lead to its holder"
    )
    lease_duration_seconds: Seconds = setting(15.0, "a lease that is not renewed ends after this", "s")
    renew_every_seconds: Seconds = setting(2.0, "how often leases are renewed", "s")
    give_up_after_seconds: Seconds = setting(
        10.0, "without a successful renewal for this long a worker lets its buckets go", "s"
    )


class PlatformSettings(Section):
    """Where the VMs come from."""

    kind: Literal["sim", "qemu", "neonvm"] = setting("sim", "sim (simulated fleet), qemu or neonvm")
    url: HttpUrl = setting("http://127.0.0.1:10310", "sim: the control address of the fleet")
    token_file: Text | None = setting(None, "sim: file with the token that the fleet asks for")
    namespace: Text | None = setting(None, "only VMs of this namespace; none: of all")
    node_bound: bool = setting(
        False, "neonvm: each node is a fleet of its own; `redis.prefix` is followed by the node's name"
    )
    enabled_label: Text = setting(
        "autoscaling.neon.tech/enabled", 'neonvm: VMs on which this label is "true" are scaled'
    )
    observe_label: Text | None = setting(
        None,
        'neonvm, qemu: VMs on which this label is "true" are observed, unless neonvm has them enabled too',
    )

    def token(self) -> str | None:
        """The token in `tokenFile`, None without such a file.

        Raises:
            ConfigurationError: the file can't be read.
        """
        return None if self.token_file is None else read_secret(self.token_file, ".platform.tokenFile")


class NodeSettings(Section):
    """A node whose capacity the built-in scheduler gives out."""

    name: Text = setting(..., "the node's name, as the platform tells it")
    milli_cpu: Cpu = setting(..., "CPUs of the node, a quantity", alias="cpu")
    size_bytes: Size = setting(..., "memory of the node, a quantity of bytes", alias="memory")
    reserved_milli_cpu: ReservedCpu = setting(
        0, "CPUs that the system keeps, a quantity", alias="reservedCpu"
    )
    reserved_bytes: ReservedSize = setting(
        0, "memory that the system keeps, a quantity of bytes", alias="reservedMemory"
    )


class NodeSchedulerSettings(Section):
    """The built-in scheduler, for platforms that bring none (`spec/scheduler-protocol.md`)."""

    host: Host = setting("127.0.0.1", "address to listen on")
    port: OwnPort = setting(10299, "port; 0 for a free one, published in the registry")
    compute_unit: ComputeUnitSettings = setting(ComputeUnitSettings(), "the unit that agents are told")
    nodes: Annotated[tuple[NodeSettings, ...], Field(strict=False, max_length=10_000)] = setting(
        (), "the nodes and their capacity"
    )


class InformantSettings(Section):
    """Towards the informants in the VMs (`spec/informant.md`)."""

    register_agents: bool = setting(
        False,
        "be an agent of each VM's informant; only while it makes us the current one is the VM changed",
        alias="register",
    )
    server_port: PeerPort = setting(10301, "neonvm: port of the informant in each VM")
    host: Host = setting("127.0.0.1", "address that our agents listen on")
    told_host: Host | None = setting(
        None, "where informants are told to call us; none: `host`, or K8S_POD_IP where that is any address"
    )
    ports: PortRange = setting(
        "20000-20999", "ports of our agents, one for each VM; 0: free ones, without a bound"
    )
    request_timeout_seconds: Seconds = setting(
        2.0, "limit of a request to an informant; it checks our id meanwhile", "s"
    )
    silence_seconds: Seconds = setting(
        25.0, "without a check for so long we have been dropped: more than two of the informant's", "s"
    )
    retry_min_wait_seconds: Seconds = setting(
        1.0, "until a failed registration is tried again; doubles each time, with jitter", "s"
    )
    retry_max_wait_seconds: Seconds = setting(60.0, "the longest of these waits", "s")

    def port_range(self) -> range:
        """The ports; an empty one means free ones."""
        return parse_port_range(self.ports)


class WebSettings(Section):
    """Our own HTTP endpoints: metrics, health, intake of stats."""

    host: Host = setting("127.0.0.1", "address to listen on")
    port: OwnPort = setting(9100, "port; 0 for a free one, else a base to which the worker's index is added")
    add_worker_number: bool = setting(
        True,
        "the number at the end of a worker's name is added to `port` and `dumpState.port`; off where each "
        "has an address of its own, as a pod has",
    )


class RecordingSettings(Section):
    """Recordings of VMs to files, beside the workers (`docs/recording.md`)."""

    vms: Annotated[tuple[Text, ...], Field(strict=False, max_length=1_000)] = setting(
        (), "which VMs: patterns of namespace/name, as in a shell (`prod/*`); none: nothing is recorded"
    )
    directory: Text | None = setting(None, "where the files go, on each worker's host; needed with `vms`")
    max_bytes: Annotated[int, Field(ge=65_536, le=2**40)] = setting(
        16 * 2**20, "of the files of a VM together; the oldest are deleted", "bytes"
    )
    max_seconds: Seconds = setting(
        86_400.0, "files that were last written to longer ago are deleted, as new ones are begun", "s"
    )
