"""The sections that existing deployments have (`spec/agent.md`, "Configuration"); their names stay.

The defaults are the values of a real deployment.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.config.addresses import HttpUrl
from app.config.fields import (
    RELOAD,
    LimitSeconds,
    LoadTarget,
    MemoryTarget,
    OwnPort,
    PeerPort,
    Seconds,
    Section,
    Text,
    setting,
)
from app.config.quantities import ComputeUnitSettings


class TargetSettings(Section):
    """Targets of use for VMs that have none of their own."""

    load_average_fraction_target: LoadTarget = setting(
        0.9, "load average per CPU to aim at; above 0, below 2", change=RELOAD
    )
    memory_usage_fraction_target: MemoryTarget = setting(
        0.75, "share of memory in use to aim at; above 0, below 1", change=RELOAD
    )


class ScalingSettings(Section):
    """Requests to the platform, and what the decision aims at."""

    request_timeout_seconds: Seconds = setting(10.0, "limit of a request to the platform", "s")
    retry_failed_request_seconds: Seconds = setting(
        5.0, "pause after a failed request to the platform", "s", change=RELOAD
    )
    default_config: TargetSettings = setting(TargetSettings(), "targets of VMs that have none of their own")
    compute_unit: ComputeUnitSettings = setting(
        ComputeUnitSettings(), "unit of size where no scheduler tells one: observed VMs, permits from v3.0 on"
    )
    apply_timeout_seconds: Seconds = setting(
        30.0,
        "how long an accepted size may take to be observed; then it is shown as not applied",
        "s",
        change=RELOAD,
    )


class MetricsSettings(Section):
    """Polling the metrics pages of the VMs."""

    port: PeerPort = setting(9100, "port of a VM's metrics page, where its platform names none")
    load_metric_prefix: Literal["node_", "host_"] = setting(
        "node_", "what the metrics' names begin with: node_ (node_exporter) or host_ (vector)", change=RELOAD
    )
    request_timeout_seconds: Seconds = setting(
        2.0, "limit of a poll, connection included", "s", change=RELOAD
    )
    seconds_between_requests: Seconds = setting(5.0, "period of the polls of a VM", "s")


class SchedulerSettings(Section):
    """Permits from the scheduler."""

    scheduler_name: Text = setting("autoscale-scheduler", "the scheduler whose VMs are ours")
    request_timeout_seconds: LimitSeconds = setting(
        2.0, "limit of a request; 0: only the bucket's lease limits it", "s"
    )
    request_at_least_every_seconds: Seconds = setting(
        15.0, "a request at least this often, also when nothing has changed", "s", change=RELOAD
    )
    retry_failed_request_seconds: Seconds = setting(3.0, "pause after a failed request", "s", change=RELOAD)
    retry_denied_upscale_seconds: Seconds = setting(
        2.0, "pause after a permit that was not granted in full", "s", change=RELOAD
    )
    request_port: PeerPort = setting(10299, "port of the scheduler")
    protocol_version: Literal["v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v4.0", "v5.0"] = setting(
        "v2.0", "version of the permit protocol that our agents speak"
    )


class MonitorSettings(Section):
    """The websocket to the vm-monitor in each VM."""

    response_timeout_seconds: Seconds = setting(5.0, "limit of an answer", "s")
    connection_timeout_seconds: Seconds = setting(4.0, "limit of connecting", "s", change=RELOAD)
    connection_retry_min_wait_seconds: Seconds = setting(
        5.0, "least time between two connections to a VM", "s", change=RELOAD
    )
    server_port: PeerPort = setting(10301, "port of the monitor, where the VM's platform names none")
    unhealthy_after_silence_duration_seconds: Seconds = setting(
        20.0, "a VM whose monitor was silent for longer is stuck", "s", change=RELOAD
    )
    unhealthy_startup_grace_period_seconds: Seconds = setting(
        20.0,
        "how long after its start a VM may be without its monitor before it is stuck",
        "s",
        change=RELOAD,
    )
    max_health_check_sequential_failures_seconds: Seconds = setting(
        30.0, "health checks that fail in a row for longer end the connection", "s"
    )
    retry_failed_request_seconds: Seconds = setting(3.0, "pause after a failed request", "s", change=RELOAD)
    retry_denied_downscale_seconds: Seconds = setting(
        5.0, "how long a denied downscale keeps the VM above what was denied", "s", change=RELOAD
    )
    denied_downscale_follow_up_wait_seconds: Seconds = setting(
        1.0, "least pause between a denial and the next, smaller, question", "s", change=RELOAD
    )
    requested_upscale_valid_seconds: Seconds = setting(
        10.0, "how long a VM's own request for more counts", "s", change=RELOAD
    )


class BillingSettings(Section):
    """Usage events for VMs that have a billing endpoint id; without this section none are made."""

    url: HttpUrl = setting(..., "where events are posted, at <url>/usage_events")
    cpu_metric_name: Text = setting("effective_compute_seconds", "name of the metric of CPU-seconds")
    active_time_metric_name: Text = setting("active_time_seconds", "name of the metric of active seconds")
    collect_every_seconds: Seconds = setting(4.0, "how often each VM's CPUs are noted", "s")
    accumulate_every_seconds: Seconds = setting(24.0, "how often events are made of the notes", "s")
    push_every_seconds: Seconds = setting(24.0, "how often events are posted", "s")
    push_request_timeout_seconds: Seconds = setting(5.0, "limit of a post", "s")
    max_batch_size: Annotated[int, Field(gt=0, le=100_000)] = setting(200, "most events in a post")


class DumpStateSettings(Section):
    """The state dump over HTTP; without this section it is not served."""

    port: OwnPort = setting(10300, "port; 0 for a free one, else a base to which the worker's index is added")
    timeout_seconds: Seconds = setting(5.0, "past it the dump gives what could be had", "s")
