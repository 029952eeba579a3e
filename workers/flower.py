"""Flower's settings: loopback, readable columns, the queues of all buckets.

Flower takes its options from the environment too, under what the command line says; its API stays closed, as
it is by default, unless an operator gives it authentication.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from celery import Celery
from kombu.entity import Queue

from app.cluster.ring import BucketSet

TASK_COLUMNS = "name,kwargs,state,received,started,runtime,worker"
"""`kwargs` is what a scaling task says of itself: VM, from, to and why."""


def is_flower(argv: Sequence[str]) -> bool:
    """Whether this process is `celery … flower`."""
    return "flower" in argv[1:]


def configure_flower(celery: Celery, buckets: int, environ: MutableMapping[str, str]) -> None:
    """Set what an operator has not set."""
    environ.setdefault("FLOWER_ADDRESS", "127.0.0.1")
    environ.setdefault("FLOWER_TASKS_COLUMNS", TASK_COLUMNS)
    names = [celery.conf.task_default_queue, *BucketSet(buckets).names]
    celery.conf.task_queues = [Queue(name) for name in names]  # type: ignore[no-untyped-call]
