"""The checks of `vmscaler doctor`, as the configuration has them."""

from __future__ import annotations

from collections.abc import Callable

from app.adapters.clock import SystemClock
from app.adapters.kubernetes_probe import KubernetesLook
from app.adapters.reach import NetworkReach
from app.adapters.redis_probe import RedisLook
from app.bootstrap.api_server import build_api_server, scheduler_selector
from app.bootstrap.cluster_rights import needed_rights, useful_rights
from app.bootstrap.peers import build_metrics_pages, build_monitor_dialer
from app.bootstrap.platform import build_platform, build_scheduler_watch
from app.bootstrap.reading import build_inspection
from app.bootstrap.security import peer_tls
from app.bootstrap.stores import Stores
from app.config import Settings
from app.ports.peers import MonitorCallbacks, SchedulerInfo
from app.ports.platform import InventoryChange
from app.ports.vm import VirtualMachine
from app.protocols.monitor_wire import HealthCheck
from app.services.checkup import Check, Finding, run_checks
from app.services.clock_checks import agents_clock_check
from app.services.cluster_checks import cluster_checks
from app.services.fleet_check import fleet_check
from app.services.plain_threads import PlainThreads
from app.services.redis_checks import redis_check
from app.services.vm_checks import CALL_S, VmChecks, scheduler_check


def examine(settings: Settings, vm: str | None, *, asks_monitor: bool) -> list[Finding]:
    """Make all checks that apply to the platform; bounded in time, whatever does not answer.

    Args:
        vm: the one whose servers are tried; None: the first of ours.
        asks_monitor: whether its monitor is spoken to, which ends its agent's connection.

    Raises:
        ConfigurationError: a file that the configuration names can't be used.
    """
    inspection = build_inspection(settings)
    checks = [redis_check(RedisLook(settings.redis))]
    if needed := needed_rights(settings):
        checks += cluster_checks(
            lambda: KubernetesLook(build_api_server(settings)),
            needed,
            useful_rights(settings),
            needs_vms=settings.platform.kind == "neonvm",
        )
    checks += [
        fleet_check(inspection.fleet_view),
        agents_clock_check(inspection.agents),
        _scheduler_check(settings),
        _vm_checks(settings).check(vm, asks_monitor=asks_monitor),
    ]
    return run_checks(checks, SystemClock(), PlainThreads())


def _scheduler_check(settings: Settings) -> Check:
    reach = NetworkReach(peer_tls(settings.security.peers.scheduler, ".security.peers.scheduler"))
    if settings.platform.kind == "neonvm":
        place = settings.kubernetes.scheduler_namespace
        where = f"no pod with {scheduler_selector(settings)} in namespace {place}"
        step = "see that it runs; else set kubernetes.schedulerSelector and kubernetes.schedulerNamespace"
        source = "the API server"
    else:
        where, step = "no built-in scheduler is registered", "start `vmscaler scheduler`"
        source = "Redis"

    def current() -> SchedulerInfo | None:
        return build_scheduler_watch(settings, Stores(settings).agents, SystemClock()).current()

    return scheduler_check(current, reach, where=where, step=step, source=source)


def _vm_checks(settings: Settings) -> VmChecks:
    return VmChecks(
        fleet=_fleet_reader(settings),
        pages=build_metrics_pages(settings),
        reach=NetworkReach(None),
        page_prefix=settings.metrics.load_metric_prefix,
        ask_monitor=_monitor_asker(settings),
        where=_ours(settings),
    )


def _fleet_reader(settings: Settings) -> Callable[[], InventoryChange]:
    def read() -> InventoryChange:
        platform = build_platform(settings)
        try:
            return platform.changes(None, wait_s=0)
        finally:
            platform.close()

    return read


def _monitor_asker(settings: Settings) -> Callable[[VirtualMachine], None]:
    dialer = build_monitor_dialer(settings)
    silent = MonitorCallbacks(
        on_upscale_request=lambda: None, on_success=lambda: None, on_exit=lambda reason: None
    )

    def ask(vm: VirtualMachine) -> None:
        if vm.monitor_address is None:
            return
        session = dialer.connect(vm.monitor_address, silent, timeout_s=CALL_S)
        session.serve_in_background()
        try:
            session.call(HealthCheck(), timeout_s=CALL_S)
        finally:
            session.close()

    return ask


def _ours(settings: Settings) -> str:
    """What makes a VM ours, for an operator."""
    platform = settings.platform
    if platform.kind == "sim":
        return f"those of the fleet at {platform.url}"
    if platform.kind == "qemu":
        return "those that `vmscaler vm local` lists as running"
    labels = f"{platform.enabled_label}=true"
    if platform.observe_label:
        labels += f" or {platform.observe_label}=true (observed)"
    node = f", on node {settings.env.node_name}" if platform.node_bound else ""
    return f"alive, with a pod IP, schedulerName {settings.scheduler.scheduler_name} and label {labels}{node}"
