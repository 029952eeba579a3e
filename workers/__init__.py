"""Celery: the app, boot steps, tasks, beat and Flower settings.

`celery -A workers worker -P gevent`, `celery -A workers beat`, `celery -A workers flower`.
"""

from workers.celery_app import app

__all__ = ["app"]
