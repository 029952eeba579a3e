"""The task queue port over Celery."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from app.errors import StoreUnavailable
from app.ports.store import BucketName
from app.ports.vm import VmKey


class CeleryTaskQueue:
    """Sends scaling tasks to the queue of their bucket."""

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
                retry=False,
                kwargsrepr=f"{key}: {size_from} -> {size_to}, {reason}"[:300],
            )
        except (KombuError, RedisError, OSError) as err:
            raise StoreUnavailable("broker", f"{type(err).__name__}: the task was not sent") from err
