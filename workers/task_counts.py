"""Counts tasks by their end, as Celery tells of it."""

from __future__ import annotations

from typing import Any

from celery.signals import task_postrun, task_revoked

from app.ports.own_metrics import CELERY_TASKS


def count_tasks() -> None:
    """Count those of this process from now on; a second time changes nothing."""
    task_postrun.connect(_count_ended, weak=False)
    task_revoked.connect(_count_too_late, weak=False)


def _count_ended(task: Any = None, state: str | None = None, **_: object) -> None:
    CELERY_TASKS.add(_name_of(task), "succeeded" if state == "SUCCESS" else "failed")


def _count_too_late(request: Any = None, **_: object) -> None:
    """It was taken from its queue and not run: its time was over."""
    CELERY_TASKS.add(_name_of(request), "too_late")


def _name_of(task: Any) -> str:
    return str(getattr(task, "name", "")).removeprefix("vmscaler.")
