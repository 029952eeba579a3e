"""A worker's metrics page, wired to what it reads."""

from __future__ import annotations

from app.adapters.green import GreenConcurrency
from app.bootstrap.stores import Stores
from app.bootstrap.worker_web import WorkerWeb
from app.config import Settings
from app.ports.agent_metrics import AGENT_FAMILIES
from app.ports.own_metrics import WORKER_FAMILIES
from app.ports.runtime import Clock
from app.services.agent import Agent
from app.services.metrics_page import MetricsPage
from app.services.stats import Stats
from app.services.worker_readings import WorkerReadings
from app.web.metrics import add_metrics_page


def serve_metrics(
    settings: Settings,
    stores: Stores,
    agent: Agent,
    stats: Stats,
    web: WorkerWeb,
    runtime: tuple[Clock, GreenConcurrency],
) -> None:
    """Let the worker's server answer `GET /metrics`."""
    clock, concurrency = runtime
    readings = WorkerReadings(agent, stats, stores.queues, lambda: concurrency.jobs)
    agent.add_part(readings)
    runners = agent.supervisor.runners if settings.prometheus.per_vm else None
    families = (*AGENT_FAMILIES, *WORKER_FAMILIES)
    page = MetricsPage(families, clock, concurrency, readings.read, runners)
    add_metrics_page(web.application, page)
