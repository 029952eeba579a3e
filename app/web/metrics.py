"""`GET /metrics`, the page for Prometheus (`docs/metrics.md`)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from app.protocols.exposition import CONTENT_TYPE
from app.services.metrics_page import MetricsPage
from app.web.replies import Reply
from app.web.worker import WorkerApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

METRICS_PATH = "/metrics"


def metrics_reply(page: MetricsPage) -> Reply:
    """The page as of now."""
    return Reply(HTTPStatus.OK, page.text(), CONTENT_TYPE)


def add_metrics_page(application: WorkerApplication, page: MetricsPage) -> None:
    """Serve it."""

    def answer(environ: WSGIEnvironment) -> Reply:
        return metrics_reply(page)

    application.add("GET", METRICS_PATH, answer)
