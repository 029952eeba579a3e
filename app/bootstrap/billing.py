"""A worker's billing, where the section `billing` is there."""

from __future__ import annotations

import socket
from pathlib import Path

from app.adapters.journal_file import JournalFile
from app.bootstrap.sinks import file_sink, http_sink, s3_sink
from app.bootstrap.stores import Stores
from app.config import Settings
from app.errors import ConfigurationError
from app.ports.billing import EventSink
from app.ports.runtime import Clock, Concurrency
from app.ports.store import Holder
from app.services.billing import Billing, BillingTimes
from app.services.bucket_meters import MeterRules
from app.services.guarding import Guards
from app.services.outbox_pushing import OutboxPushing, PushRules
from app.services.usage_events import MetricNames, UsageEvents


def build_billing(
    settings: Settings, stores: Stores, holder: Holder, guards: Guards, runtime: tuple[Clock, Concurrency]
) -> Billing | None:
    """Not yet connected; None where nothing is billed.

    Raises:
        ConfigurationError: a file that the configuration names can't be used.
    """
    billing, own = settings.billing, settings.metering
    if billing is None:
        return None
    sinks = _sinks(settings, holder)
    clock = runtime[0]
    rules = PushRules(
        billing.push_every_seconds, billing.push_request_timeout_seconds, billing.max_batch_size
    )
    # Two workers of a host, and two runs of one, must never make the same key.
    host = f"{socket.gethostname()}-{holder.agent_id[:8]}"
    return Billing(
        BillingTimes(billing.collect_every_seconds, billing.accumulate_every_seconds),
        MeterRules(
            tuple(sink.name for sink in sinks), round(own.max_gap_seconds * 1000), own.max_outbox_events
        ),
        runtime,
        stores.billing,
        UsageEvents(clock, host, MetricNames(billing.cpu_metric_name, billing.active_time_metric_name)),
        tuple(OutboxPushing(sink, stores.billing, guards, rules) for sink in sinks),
        None if own.journal is None else _journal(own.journal),
    )


def _sinks(settings: Settings, holder: Holder) -> list[EventSink]:
    billing, own = settings.billing, settings.metering
    sinks: list[EventSink] = []
    if billing is not None:
        sinks.append(http_sink(billing.url, "/usage_events", own.http, ".metering.http"))
    if own.s3 is not None:
        sinks.append(s3_sink(own.s3, ".metering.s3"))
    if own.file is not None:
        sinks.append(file_sink(own.file, "usage", holder.identity.rpartition("_")[0]))
    return sinks


def _journal(path: str) -> JournalFile:
    try:
        return JournalFile(Path(path))
    except (OSError, ValueError) as err:
        problem = f".metering.journal: can't be opened: {getattr(err, 'strerror', None) or err}"
        raise ConfigurationError([problem]) from None
