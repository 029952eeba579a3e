"""What `/healthz` of a worker says."""

from __future__ import annotations

import json
from typing import Any

from app.services.progress import Progress, ProgressLimits
from app.web.health import add_health_page
from app.web.worker import WorkerApplication


class Full:
    """Queues in which a task always waits."""

    def waiting(self, names: object) -> int:
        return 1


def ask(application: WorkerApplication, method: str = "GET") -> tuple[str, Any]:
    said: list[str] = []
    body = b"".join(
        application(
            {"PATH_INFO": "/healthz", "REQUEST_METHOD": method}, lambda status, headers: said.append(status)
        )
    )
    return said[0], json.loads(body)


def test_health_turns_to_503_with_the_reason_before_the_watchdog_acts() -> None:
    progress = Progress(ProgressLimits(blocked=15, idle=4), Full(), lambda: ["vmscaler"])
    application = WorkerApplication()
    add_health_page(application, progress)
    progress.task_ended()
    progress.turn()
    assert ask(application) == (
        "200 OK",
        {
            "status": "ok",
            "reasons": [],
            "loop_turns": 1,
            "tasks_ended": 1,
            "tasks_waiting": 0,
            "idle_turns": 0,
            "redis": "ok",
        },
    )
    for _ in range(3):
        progress.turn()
    status, body = ask(application, "HEAD")
    assert status == "503 Service Unavailable"
    assert body["status"] == "stuck"
    assert body["reasons"] == progress.problems() != []
    assert progress.verdict() is None
