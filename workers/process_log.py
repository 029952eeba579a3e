"""The log of a Celery process: `-l` says how much, the section `logging` of the configuration the rest."""

from __future__ import annotations

import logging

from celery import Celery

from app.adapters.log_lines import configure_logging
from app.config import Settings
from workers.consumer import NOISY


def log_as_asked(app: Celery, level: int) -> None:
    """Log as the command line and the configuration say; called once, by Celery's signal."""
    app.vmscaler_log_level = level
    _configure(app)


def log_anew(app: Celery, settings: Settings) -> None:
    """The configuration has changed; what the command line said stays."""
    app.vmscaler_settings = settings
    _configure(app)


def _configure(app: Celery) -> None:
    configure_logging(
        app.vmscaler_log_level, app.vmscaler_settings.logging, dict.fromkeys(NOISY, logging.ERROR)
    )
