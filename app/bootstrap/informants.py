"""A worker's agents towards the informants in its VMs, wired; none where registration is off."""

from __future__ import annotations

import random
import uuid

from app.adapters.informants_http import InformantsHttp
from app.bootstrap.security import bearer, guest_tls, protection
from app.config import Settings
from app.errors import ConfigurationError
from app.ports.runtime import Clock, Concurrency
from app.protocols.agent_store import AgentStore
from app.protocols.informant_agent import AgentTimes
from app.services.informant_link import InformantPeers, InformantSettings
from app.services.informants import Informants
from app.services.spreading import spread
from app.web.agent_ports import AgentPorts

ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
"""Addresses to listen on that nobody can connect to."""


def build_informants(
    settings: Settings, worker: str, clock: Clock, concurrency: Concurrency, store: AgentStore
) -> Informants | None:
    """One agent for each VM that the worker will own; nothing listens yet.

    Args:
        worker: the worker's name; spreads the choice of ports of several workers on one host.
        store: where the fleet's agents are listed.

    Raises:
        ConfigurationError: a file that `security` names can't be used, or no address can be told.
    """
    own, peer = settings.informant, settings.security.peers.informant
    if not own.register_agents:
        return None
    waits = (
        settings.scaling.request_timeout_seconds,
        settings.monitor.response_timeout_seconds,
        settings.scheduler.request_timeout_seconds,
    )
    times = AgentTimes(
        silence_s=own.silence_seconds,
        retry_s=own.retry_min_wait_seconds,
        retry_max_s=max(own.retry_max_wait_seconds, own.retry_min_wait_seconds),
    )
    ours = InformantSettings(times, own.request_timeout_seconds, suspend_wait_s=max(waits) + 1.0)
    servers = AgentPorts(
        concurrency,
        (own.host, _told_host(settings)),
        _spread(own.port_range(), worker),
        protection(settings.security.servers.agents, ".security.servers.agents"),
        wait_s=ours.suspend_wait_s,
    )
    token = bearer(peer.token_file, ".security.peers.informant.tokenFile")
    client = InformantsHttp(bearer=token, tls=guest_tls(peer, ".security.peers.informant"))
    jitter = random.Random().random  # noqa: S311 - spreads waits
    peers = InformantPeers(client, servers, clock, concurrency, lambda: str(uuid.uuid4()), jitter)
    return Informants(peers, ours, own.ports, store)


def _told_host(settings: Settings) -> str:
    """Where informants are told to call us."""
    own = settings.informant
    if own.told_host is not None:
        return own.told_host
    if own.host not in ANYWHERE:
        return own.host
    if settings.env.pod_ip is None:
        problem = f".informant.toldHost: must be set beside .informant.host {own.host}, or K8S_POD_IP"
        raise ConfigurationError([problem])
    return settings.env.pod_ip


def _spread(ports: range, worker: str) -> list[int]:
    """The range from another place on for each worker: those on one host collide less."""
    first = int(len(ports) * spread(worker))
    return [*ports[first:], *ports[:first]]
