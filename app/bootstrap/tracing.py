"""Traces switched on for a process, where the configuration and the packages allow it."""

from __future__ import annotations

import logging

from app import __version__
from app.config import Settings
from app.errors import ConfigurationError
from app.ports.tracing import use_tracer

logger = logging.getLogger(__name__)


def start_tracing(settings: Settings, name: str) -> None:
    """Make traces if that is asked for; without the packages a warning says so, and all else goes on."""
    own = settings.tracing
    if not own.enabled:
        return
    from app.adapters.otel_tracing import OtelTracer, otlp_exporter

    try:
        use_tracer(OtelTracer(name, __version__, own.sample_ratio, otlp_exporter(own.endpoint.reveal())))
    except ConfigurationError as err:
        logger.warning("no traces are made", extra={"reason": str(err)})
    else:
        logger.info("traces are made", extra={"endpoint": str(own.endpoint), "ratio": own.sample_ratio})


def stop_tracing() -> None:
    """Send what there is; a second time does nothing."""
    use_tracer(None)
