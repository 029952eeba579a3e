"""A worker's scaling events, where the section `scalingEvents` names a target."""

from __future__ import annotations

import random

from app.adapters.sink_http import HttpPoster
from app.bootstrap.security import bearer, peer_tls
from app.bootstrap.sinks import file_sink, http_sink, s3_sink
from app.config import Settings
from app.config.events_section import ScalingEventsSettings, WebhookSettings
from app.ports.billing import EventSink
from app.ports.runtime import Clock, Concurrency
from app.services.event_delivery import Delivery, DeliveryRules, SinkDelivery
from app.services.event_reports import EventReports
from app.services.notices import NoticeRules
from app.services.webhook_delivery import WebhookDelivery, WebhookRules


def build_event_reports(
    settings: Settings, worker: str, runtime: tuple[Clock, Concurrency]
) -> EventReports | None:
    """Not yet connected; None where events go nowhere.

    Raises:
        ConfigurationError: a file that the configuration names can't be used.
    """
    own = settings.scaling_events
    if not own.has_targets:
        return None
    clock, concurrency = runtime
    rules = DeliveryRules(
        own.push_every_seconds, own.request_timeout_seconds, own.max_batch_size, own.max_queued_events
    )
    deliveries: list[Delivery] = [SinkDelivery(sink, rules) for sink in _sinks(own, worker)]
    for index, webhook in enumerate(own.webhooks):
        deliveries.append(_webhook(webhook, f".scalingEvents.webhooks[{index}]", rules, clock))
    notices = NoticeRules(
        at_maximum_s=own.notices.at_maximum_seconds,
        denied_s=own.notices.denied_seconds,
        denied_lasts_s=2 * settings.monitor.retry_denied_downscale_seconds + 10,
        failed_s=own.notices.failed_seconds,
        flap_changes=own.notices.flap_changes,
        flap_s=own.notices.flap_seconds,
    )
    return EventReports(clock, concurrency, notices, tuple(deliveries))


def _sinks(own: ScalingEventsSettings, worker: str) -> list[EventSink]:
    sinks: list[EventSink] = []
    if own.http is not None:
        sinks.append(http_sink(own.http.url, "", own.http, ".scalingEvents.http"))
    if own.s3 is not None:
        sinks.append(s3_sink(own.s3, ".scalingEvents.s3"))
    if own.file is not None:
        sinks.append(file_sink(own.file, "scaling", worker))
    return sinks


def _webhook(webhook: WebhookSettings, where: str, rules: DeliveryRules, clock: Clock) -> WebhookDelivery:
    token = bearer(webhook.token_file, f"{where}.tokenFile")
    poster = HttpPoster(
        webhook.url.reveal(), f"webhook {webhook.name}", peer_tls(webhook, where), bearer=token
    )
    own = WebhookRules(
        webhook.name,
        frozenset(webhook.kinds),
        webhook.secret(where),
        webhook.template,
        webhook.retry_for_seconds,
    )
    # Jitter only: nobody gains by knowing it.
    return WebhookDelivery(poster, own, rules, clock, random.random)
