"""Celery: the app, boot steps, tasks, beat and Flower settings."""
