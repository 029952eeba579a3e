"""The platform that the configuration names."""

from __future__ import annotations

from app.adapters.scheduler_registry import RegistrySchedulerWatch
from app.bootstrap.security import peer_tls
from app.config import Settings
from app.ports.peers import SchedulerWatch
from app.ports.platform import Platform
from app.ports.registry import AgentRegistry
from app.ports.runtime import Clock
from app.ports.sender import Sender


def build_platform(settings: Settings, sender: Sender | None = None) -> Platform:
    """Where the VMs come from; connects at the first call.

    Args:
        sender: who asks for sizes; None for a reader.

    Raises:
        ConfigurationError: something that the platform's section names can't be used.
    """
    if settings.platform.kind == "sim":
        from app.adapters.platform_sim import SimPlatform

        url, token = settings.platform.url.reveal(), settings.platform.token()
        trust = settings.security.peers.platform
        is_secure = settings.platform.url.parts.scheme == "https"
        return SimPlatform(
            url,
            token=token,
            namespace=settings.platform.namespace,
            sender=sender,
            tls=peer_tls(trust, ".security.peers.platform") if is_secure else None,
        )
    if settings.platform.kind == "neonvm":
        from app.bootstrap.kubernetes import build_neonvm

        return build_neonvm(settings)
    from app.bootstrap.qemu import build_qemu

    return build_qemu(settings)


def build_scheduler_watch(settings: Settings, registry: AgentRegistry, clock: Clock) -> SchedulerWatch:
    """Who is asked for permits: with platform neonvm the cluster's scheduler, else the built-in one."""
    if settings.platform.kind == "neonvm":
        from app.bootstrap.kubernetes import build_pod_watch

        return build_pod_watch(settings, clock)
    return RegistrySchedulerWatch(registry, clock)
