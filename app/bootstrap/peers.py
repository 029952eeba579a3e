"""A worker's clients of schedulers and of what runs in the VMs, with what lets them in."""

from __future__ import annotations

from app.adapters.metrics_http import MetricsPages
from app.adapters.monitor_ws import MonitorDialer
from app.adapters.scheduler_http import SchedulerHttp
from app.bootstrap.security import bearer, guest_tls, peer_tls
from app.config import Settings
from app.ports.sender import Sender
from app.protocols.scheduler import ProtocolVersion


def build_scheduler_client(settings: Settings, sender: Sender) -> SchedulerHttp:
    """Asks whichever scheduler is in charge, in the configured version.

    Raises:
        ConfigurationError: a file that `security.peers.scheduler` names can't be used.
    """
    peer, where = settings.security.peers.scheduler, ".security.peers.scheduler"
    return SchedulerHttp(
        ProtocolVersion.named(settings.scheduler.protocol_version),
        settings.scaling.compute_unit.resources(),
        bearer=bearer(peer.token_file, f"{where}.tokenFile"),
        sender=sender,
        tls=peer_tls(peer, where),
    )


def build_metrics_pages(settings: Settings, sender: Sender | None = None) -> MetricsPages:
    """Reads the VMs' metrics pages.

    Raises:
        ConfigurationError: a file that `security.peers.metrics` names can't be used.
    """
    peer, where = settings.security.peers.metrics, ".security.peers.metrics"
    return MetricsPages(
        sender=sender,
        bearer=bearer(peer.token_file, f"{where}.tokenFile"),
        tls=guest_tls(peer, where),
    )


def build_monitor_dialer(settings: Settings, sender: Sender | None = None) -> MonitorDialer:
    """Connects to the VMs' vm-monitors.

    Raises:
        ConfigurationError: a file that `security.peers.monitor` names can't be used.
    """
    peer, where = settings.security.peers.monitor, ".security.peers.monitor"
    return MonitorDialer(
        settings.monitor.max_health_check_sequential_failures_seconds,
        response_timeout_s=settings.monitor.response_timeout_seconds,
        sender=sender,
        bearer=bearer(peer.token_file, f"{where}.tokenFile"),
        tls=guest_tls(peer, where),
    )
