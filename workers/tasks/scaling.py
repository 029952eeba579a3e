"""Scaling operations: one task per VM and change, on its bucket's queue, for Flower to show."""

from __future__ import annotations

import logging

from app.ports.store import BucketName
from app.ports.vm import VmKey
from workers.celery_app import app

logger = logging.getLogger(__name__)


@app.task(name="vmscaler.upscale")  # type: ignore[untyped-decorator]
def upscale(vm: str, bucket: str, **shown: str) -> None:
    """Drive the VM's actions; `from`, `to` and `reason` are there to be read."""
    _scale("upscale", vm, bucket)


@app.task(name="vmscaler.downscale")  # type: ignore[untyped-decorator]
def downscale(vm: str, bucket: str, **shown: str) -> None:
    """Drive the VM's actions; `from`, `to` and `reason` are there to be read."""
    _scale("downscale", vm, bucket)


def _scale(kind: str, vm: str, bucket: str) -> None:
    outcome = app.vmscaler_agent.scale(kind, BucketName(bucket), VmKey(vm))
    logger.debug("scaling task ended", extra={"vm": vm, "kind": kind, "outcome": outcome})
