"""The rhythm: beat sends `tick`, `tick` sends `poll_bucket` to the buckets whose turn it is.

Both take arguments by name that a newer version may send, and ignore them: its beat gives the rhythm to older
workers too while they are upgraded one by one.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Task
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from app.errors import StoreUnavailable
from app.ports.store import BucketName
from app.ports.tracing import trace_headers
from workers.celery_app import app

logger = logging.getLogger(__name__)


@app.task(bind=True, name="vmscaler.tick", send_events=False)  # type: ignore[untyped-decorator]
def tick(self: Task[Any, Any], **newer: object) -> None:
    """Send a poll to each bucket whose turn has come."""
    settings = app.vmscaler_settings
    agent = app.vmscaler_agent
    period_s = settings.metrics.seconds_between_requests
    try:
        due = agent.due_buckets(settings.ownership.buckets)
    except StoreUnavailable as err:
        logger.warning("tick without effect", extra={"reason": err.problem})
        return
    headers = trace_headers()
    for bucket, seq in due:
        try:
            poll_bucket.apply_async(
                (bucket, seq), queue=bucket, expires=period_s, retry=False, headers=headers
            )
        except (KombuError, RedisError, OSError) as err:
            # The others' turns have been taken too: each is tried.
            logger.warning("poll not sent", extra={"bucket": bucket, "reason": type(err).__name__})


@app.task(name="vmscaler.poll_bucket", send_events=False)  # type: ignore[untyped-decorator]
def poll_bucket(bucket: str, seq: int, **newer: object) -> None:
    """Poll the VMs of one bucket; a seq that is not newer is skipped."""
    outcome = app.vmscaler_agent.poll_bucket(BucketName(bucket), seq)
    logger.debug("bucket polled", extra={"bucket": bucket, "seq": seq, "outcome": outcome})
