"""The task queue port over Celery."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from app.adapters.redis_queues import SCALING_PRIORITY
from app.errors import StoreUnavailable
from app.ports.store import BucketName
from app.ports.tracing import trace_headers
from app.ports.vm import VmKey

BELL_EXPIRES_S = 5.0
"""Later the owner's tick has read the stats."""


class CeleryTaskQueue:
    """Sends scaling tasks to the queue of their bucket, and tells its owner of stats that wait."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def send_scaling(
        self,
        kind: str,
        bucket: BucketName,
        key: VmKey,
        *,
        size_from: str,
        size_to: str,
        reason: str,
        expires_s: float,
    ) -> None:
        """Send `vmscaler.upscale` or `vmscaler.downscale`; see the port."""
        arguments = {"vm": key, "bucket": bucket, "from": size_from, "to": size_to, "reason": reason}
        try:
            self._app.send_task(
                f"vmscaler.{kind}",
                kwargs=arguments,
                queue=bucket,
                expires=expires_s,
                priority=SCALING_PRIORITY,
                retry=False,
                headers=trace_headers(),
                kwargsrepr=f"{key}: {size_from} -> {size_to}, {reason}"[:300],
            )
        except (KombuError, RedisError, OSError) as err:
            raise StoreUnavailable("broker", f"{type(err).__name__}: the task was not sent") from err

    def ring(self, bucket: BucketName) -> None:
        """Send `vmscaler.stats`; see `StatBell`."""
        try:
            self._app.send_task(
                "vmscaler.stats", args=(bucket,), queue=bucket, expires=BELL_EXPIRES_S, retry=False
            )
        except (KombuError, RedisError, OSError) as err:
            raise StoreUnavailable("broker", f"{type(err).__name__}: the task was not sent") from err
