"""Metrics pages over real HTTP: a worker's way to serve one, and the built-in scheduler's."""

from __future__ import annotations

import requests

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.bootstrap.scheduler_metrics import scheduler_metrics
from app.core.resources import resources
from app.protocols.metric_families import Counter
from app.services.metrics_page import MetricsPage
from app.web.metrics import add_metrics_page
from app.web.scheduler import SchedulerApplication
from app.web.worker import WorkerApplication
from tests.fakes.scheduler_fleet import machine, node_scheduler, whole
from tests.fakes.serving import served


def ask(port: int, method: str = "GET") -> requests.Response:
    return requests.request(method, f"http://127.0.0.1:{port}/metrics", timeout=60)


def test_the_scheduler_tells_of_its_vms_and_answers() -> None:
    scheduler = node_scheduler(whole(machine("a")))
    page = scheduler_metrics(scheduler, SystemClock(), GreenConcurrency())
    with served(SchedulerApplication(scheduler, resources(250, 1), metrics=page)) as port:
        answer, head, refused = ask(port), ask(port, "HEAD"), ask(port, "POST")
    lines = answer.text.splitlines()
    assert f"vmscaler_scheduler_vms {scheduler.vm_count}" in lines
    assert 'vmscaler_permits_total{answer="granted"} 0' in lines
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert (head.status_code, head.text) == (200, "")


def test_a_page_is_only_read() -> None:
    application = WorkerApplication()
    page = MetricsPage([Counter("some_total", "some")], SystemClock(), GreenConcurrency(), lambda: None)
    add_metrics_page(application, page)
    with served(application) as port:
        answer, head, refused = ask(port), ask(port, "HEAD"), ask(port, "DELETE")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("some_total 0\n")
    assert (head.headers["Content-Length"], head.text) == (answer.headers["Content-Length"], "")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
