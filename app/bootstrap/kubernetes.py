"""What platform neonvm needs of its API server: the VMs, and the scheduler's pod."""

from __future__ import annotations

from app.adapters.kubernetes_events import KubernetesEvents
from app.adapters.kubernetes_scheduler import PodSchedulerWatch
from app.adapters.neonvm_fleet import FleetRules, VmPorts
from app.adapters.platform_neonvm import NeonvmPlatform
from app.bootstrap.api_server import build_api_server, scheduler_selector
from app.config import Settings
from app.ports.platform import Platform
from app.ports.runtime import Clock
from app.ports.vm_reports import VmReports
from app.protocols.virtual_machine import Selection


def build_neonvm(settings: Settings) -> NeonvmPlatform:
    """The VMs of the cluster, or of this process' node."""
    return NeonvmPlatform(build_api_server(settings), _rules(settings))


def build_pod_watch(settings: Settings, clock: Clock) -> PodSchedulerWatch:
    """The scheduler's pod."""
    kubernetes, scheduler = settings.kubernetes, settings.scheduler
    return PodSchedulerWatch(
        build_api_server(settings),
        kubernetes.scheduler_namespace,
        scheduler_selector(settings),
        scheduler.request_port,
        clock,
    )


def build_vm_events(settings: Settings, platform: Platform, clock: Clock, worker: str) -> VmReports | None:
    """Events on the objects of VMs that can't be read; None where `platform` is not this one's."""
    if not isinstance(platform, NeonvmPlatform):
        return None
    return KubernetesEvents(build_api_server(settings), platform.unreadable_uid, clock.wall_ms, worker)


def _rules(settings: Settings) -> FleetRules:
    platform, kubernetes = settings.platform, settings.kubernetes
    own_namespace = () if platform.namespace is None else (platform.namespace,)
    selection = Selection(
        scheduler_name=settings.scheduler.scheduler_name,
        enabled_label=platform.enabled_label,
        observe_label=platform.observe_label,
        node=settings.env.node_name if platform.node_bound else None,
    )
    return FleetRules(
        selection,
        settings.core_config().default_scaling_config,
        VmPorts(settings.metrics.port, settings.monitor.server_port, settings.informant.server_port),
        namespaces=kubernetes.namespaces or own_namespace,
        label_selector=kubernetes.label_selector,
        field_selector=kubernetes.field_selector,
    )
