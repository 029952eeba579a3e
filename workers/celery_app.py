"""The Celery app: settings, beat's one entry, boot steps. Importing it reads the configuration, no more."""

from __future__ import annotations

import os
import sys
from logging import WARNING

from celery import Celery
from celery.signals import setup_logging

from app.config import Settings, load_settings
from app.errors import ConfigurationError
from app.ports.runtime import SHARED_QUEUE
from app.services.agent_settings import MAX_SCALING_TASKS
from workers.broker import broker_tls, broker_url, transport_options
from workers.consumer import use_sturdy_remote_control
from workers.ending import EndingStep, refuse
from workers.flower import configure_flower, is_flower
from workers.process_log import log_as_asked
from workers.remote_control import obey_questions_only
from workers.steps import AgentStep, QueuesStep
from workers.transport import use_sturdy_transport
from workers.watchdog import WatchdogStep

SHORTEST_BEAT_S = 0.05


def _load() -> Settings:
    settings = load_settings(os.environ.get("CONFIG_PATH"), os.environ)
    use_sturdy_transport(settings.redis)
    use_sturdy_remote_control()
    if settings.flower.read_only:
        obey_questions_only()
    return settings


def _beat_interval_s(settings: Settings) -> float:
    """Ten times a period, and at least every half second."""
    return max(min(settings.metrics.seconds_between_requests / 10, 0.5), SHORTEST_BEAT_S)


def _make(settings: Settings) -> Celery:
    # Flower makes connections of its own, and needs the password for them.
    is_shown_by_flower = is_flower(sys.argv)
    celery = Celery(
        "vmscaler",
        broker=broker_url(settings.redis, with_password=is_shown_by_flower),
        events="workers.events:SturdyEvents",
        task_cls="workers.bound_task:BoundTask",
        include=["workers.tasks.ticks", "workers.tasks.scaling", "workers.tasks.stats"],
    )
    buckets = settings.ownership.buckets
    celery.conf.update(
        accept_content=["json"],
        task_serializer="json",
        event_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=SHARED_QUEUE,
        task_track_started=False,
        worker_prefetch_multiplier=1,
        # A full pool blocks the consumer, queue changes included: above the number of tasks that can exist
        # (of each bucket two polls and a reading of its stats).
        worker_concurrency=3 * buckets + MAX_SCALING_TASKS + 16,
        worker_send_task_events=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        result_backend_thread_safe=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A full or read-only Redis refuses what the consumer asks at its start: that is to be tried again.
        broker_channel_error_retry=True,
        worker_consumer="workers.consumer:SturdyConsumer",
        broker_transport_options=transport_options(settings, with_password=is_shown_by_flower),
        broker_use_ssl=broker_tls(settings.redis),
        broker_pool_limit=10,
        beat_scheduler="workers.beat.AnnouncingScheduler",
        beat_max_loop_interval=1,
        # Shown only: beat makes its own connections.
        redbeat_redis_url=broker_url(settings.redis, with_password=False),
        redbeat_redis_options={},
        redbeat_key_prefix=f"{settings.key_prefix}:beat:",
        redbeat_lock_timeout=5,
        beat_schedule={
            "tick": {
                "task": "vmscaler.tick",
                "schedule": _beat_interval_s(settings),
                "options": {"queue": SHARED_QUEUE, "expires": settings.metrics.seconds_between_requests},
            }
        },
    )
    if is_shown_by_flower:
        configure_flower(celery, settings.flower, buckets, os.environ)
    celery.vmscaler_settings = settings
    celery.vmscaler_log_level = WARNING
    celery.steps["worker"].add(AgentStep)
    celery.steps["worker"].add(WatchdogStep)
    celery.steps["worker"].add(EndingStep)
    celery.steps["consumer"].add(QueuesStep)
    return celery


@setup_logging.connect  # type: ignore[untyped-decorator]
def log_in_our_way(loglevel: int, **_: object) -> None:
    """Celery leaves logging alone once somebody answers this signal."""
    log_as_asked(app, loglevel)


def _made() -> Celery:
    """The app; a wrong configuration ends the process with one line per mistake."""
    try:
        return _make(_load())
    except ConfigurationError as err:
        refuse("\n".join(f"vmscaler: {err.source}: {problem}" for problem in err.problems))


app = _made()
