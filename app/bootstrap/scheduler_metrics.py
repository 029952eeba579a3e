"""The built-in scheduler's metrics page."""

from __future__ import annotations

from app.ports.own_metrics import PERMITS, PROBLEMS, SCHEDULED_VMS, SCHEDULER_FAMILIES
from app.ports.runtime import Clock, Concurrency
from app.services.metrics_page import MetricsPage
from app.services.node_scheduler import NodeScheduler


def scheduler_metrics(scheduler: NodeScheduler, clock: Clock, concurrency: Concurrency) -> MetricsPage:
    """The page over what the scheduler has answered."""

    def read() -> None:
        PERMITS.set(scheduler.grants, "granted")
        PERMITS.set(scheduler.refusal_count, "refused")
        SCHEDULED_VMS.set(scheduler.vm_count)
        PROBLEMS.set(bool(scheduler.problem))

    return MetricsPage(SCHEDULER_FAMILIES, clock, concurrency, read)
