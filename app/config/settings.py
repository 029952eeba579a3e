"""The whole configuration, as the application is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from app.config.agent_sections import (
    BillingSettings,
    DumpStateSettings,
    MetricsSettings,
    MonitorSettings,
    ScalingSettings,
    SchedulerSettings,
)
from app.config.environment import EnvArgs
from app.config.events_section import ScalingEventsSettings
from app.config.fields import Section, setting
from app.config.flower_section import FlowerSettings
from app.config.kubernetes_section import KubernetesSettings
from app.config.logging_section import LoggingSettings
from app.config.metering_section import MeteringSettings
from app.config.own_sections import (
    InformantSettings,
    NodeSchedulerSettings,
    OwnershipSettings,
    PlatformSettings,
    RecordingSettings,
    WebSettings,
)
from app.config.prometheus_section import PrometheusSettings
from app.config.qemu_section import QemuSettings
from app.config.redis_section import DEFAULT_PREFIX, RedisSettings
from app.config.security_section import SecuritySettings
from app.config.shutdown_section import ShutdownSettings
from app.config.stats_section import StatsSettings
from app.config.tracing_section import TracingSettings
from app.config.watchdog_section import WatchdogSettings
from app.core.model import CoreConfig, Millis, ScalingConfig

Source = Literal["default", "file", "environment"]
"""Where a value comes from."""


class FileSettings(Section):
    """The file: a section per subject, each of which may be left out."""

    scaling: ScalingSettings = setting(ScalingSettings(), "requests to the platform")
    metrics: MetricsSettings = setting(MetricsSettings(), "polling")
    scheduler: SchedulerSettings = setting(SchedulerSettings(), "permits")
    monitor: MonitorSettings = setting(MonitorSettings(), "the vm-monitors")
    billing: BillingSettings | None = setting(None, "usage events; none without it")
    metering: MeteringSettings = setting(MeteringSettings(), "billing's bounds and further sinks")
    scaling_events: ScalingEventsSettings = setting(
        ScalingEventsSettings(), "what sinks and webhooks are told"
    )
    dump_state: DumpStateSettings | None = setting(None, "the state dump; not served without it")
    ownership: OwnershipSettings = setting(OwnershipSettings(), "buckets and leases")
    redis: RedisSettings = setting(RedisSettings(), "Redis")
    platform: PlatformSettings = setting(PlatformSettings(), "where the VMs come from")
    qemu: QemuSettings = setting(QemuSettings(), "VMs of platform qemu")
    kubernetes: KubernetesSettings = setting(KubernetesSettings(), "the API server of platform neonvm")
    node_scheduler: NodeSchedulerSettings = setting(NodeSchedulerSettings(), "the built-in scheduler")
    informant: InformantSettings = setting(InformantSettings(), "the informants in the VMs")
    recording: RecordingSettings = setting(RecordingSettings(), "recordings to files")
    security: SecuritySettings = setting(SecuritySettings(), "who may talk to us")
    web: WebSettings = setting(WebSettings(), "our HTTP endpoints")
    prometheus: PrometheusSettings = setting(PrometheusSettings(), "pages for Prometheus")
    flower: FlowerSettings = setting(FlowerSettings(), "the page that shows the tasks")
    logging: LoggingSettings = setting(LoggingSettings(), "our logs")
    shutdown: ShutdownSettings = setting(ShutdownSettings(), "how our processes end")
    tracing: TracingSettings = setting(TracingSettings(), "traces by OpenTelemetry")
    watchdog: WatchdogSettings = setting(WatchdogSettings(), "ends a worker that is stuck")
    stats: StatsSettings = setting(StatsSettings(), "stats that VMs push")


class Settings(FileSettings):
    """The configuration in force; made by `load_settings`, which checks what one section can't see.

    Attributes:
        env: what the environment says about this process.
        sources: where each value comes from, by its path (`.monitor.serverPort`); a default where it isn't.
    """

    env: EnvArgs = EnvArgs()
    sources: Mapping[str, Source] = {}

    @property
    def key_prefix(self) -> str:
        """What all keys begin with: `redis.prefix`, followed by the node's name when node-bound."""
        if self.platform.node_bound and self.env.node_name:
            return f"{self.redis.prefix}:{self.env.node_name}"
        return self.redis.prefix

    @property
    def broker_prefix(self) -> str:
        """What stands before Celery's own keys: nothing, unless the fleet has a prefix of its own."""
        return "" if self.key_prefix == DEFAULT_PREFIX else f"{self.key_prefix}:"

    def core_config(self) -> CoreConfig:
        """The decision core's part, waits in milliseconds."""
        targets = self.scaling.default_config
        return CoreConfig(
            default_scaling_config=ScalingConfig(
                load_average_fraction_target=targets.load_average_fraction_target,
                memory_usage_fraction_target=targets.memory_usage_fraction_target,
            ),
            platform_retry_wait=_millis(self.scaling.retry_failed_request_seconds),
            plugin_request_tick=_millis(self.scheduler.request_at_least_every_seconds),
            plugin_retry_wait=_millis(self.scheduler.retry_failed_request_seconds),
            plugin_denied_retry_wait=_millis(self.scheduler.retry_denied_upscale_seconds),
            monitor_denied_downscale_cooldown=_millis(self.monitor.retry_denied_downscale_seconds),
            monitor_downscale_follow_up_wait=_millis(self.monitor.denied_downscale_follow_up_wait_seconds),
            monitor_requested_upscale_valid_period=_millis(self.monitor.requested_upscale_valid_seconds),
            monitor_retry_wait=_millis(self.monitor.retry_failed_request_seconds),
        )


def _millis(seconds: float) -> Millis:
    """Whole milliseconds, rounded; a duration of the configuration is at least one."""
    return Millis(round(seconds * 1000))
