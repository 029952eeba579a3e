"""Beat's metrics page; asked from a thread beside beat's loop, whose counts it reads."""

from __future__ import annotations

from collections.abc import Callable

from app.adapters.clock import SystemClock
from app.ports.own_metrics import BEAT_FAMILIES, BEAT_LEADS, BEAT_TURNS, PROBLEMS
from app.ports.runtime import Concurrency
from app.services.metrics_page import MetricsPage
from app.web.metrics import add_metrics_page
from app.web.worker import WorkerApplication


def serve_beat_metrics(
    application: WorkerApplication,
    concurrency: Concurrency,
    role: Callable[[], str],
    turns: Callable[[], int],
    problems: Callable[[], int],
) -> None:
    """Let beat's server answer `GET /metrics`.

    Args:
        concurrency: that of the server's thread.
        role: leader, standby or starting.
    """

    def read() -> None:
        BEAT_LEADS.set(role() == "leader")
        BEAT_TURNS.set(turns())
        PROBLEMS.set(problems())

    add_metrics_page(application, MetricsPage(BEAT_FAMILIES, SystemClock(), concurrency, read))
