"""Who this process is towards others: the holder of leases, and what the registry is told of it."""

from __future__ import annotations

import ipaddress
import os
import socket
import uuid

from app import __version__
from app.cluster.lease import format_identity
from app.config import Settings
from app.ports.store import Holder
from app.protocols.informant import PROTOCOL_VERSION

LOOPBACK = "127.0.0.1"
"""What is left where this machine's name leads to no address."""


def make_holder(settings: Settings, worker: str) -> Holder:
    """`<name>_<ip>` (`spec/forwarder.md`), with an agentID that is new at each start."""
    return Holder(format_identity(worker, own_ip(settings.env.pod_ip, settings.web.host)), str(uuid.uuid4()))


def make_facts(worker: str, started_ms: int) -> dict[str, object]:
    """What the registry is told once and for all; the protocol range is that of the informant's agents."""
    return {
        "name": worker,
        "started_ms": started_ms,
        "version": __version__,
        "pid": os.getpid(),
        "protocol": {"min": PROTOCOL_VERSION, "max": PROTOCOL_VERSION},
    }


def own_ip(pod_ip: str | None, host: str) -> str:
    """The IP address under which others know this process.

    Args:
        pod_ip: `K8S_POD_IP`, the best answer.
        host: what we listen on; no answer where it is a name, or stands for all addresses.
    """
    for text in (pod_ip, host):
        try:
            address = ipaddress.ip_address(text or "")
        except ValueError:
            continue
        if not address.is_unspecified:
            return str(address)
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return LOOPBACK
    return str(found[0][4][0])
