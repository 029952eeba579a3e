"""`GET /healthz` of a worker: what its watchdog sees.

200 with the facts, 503 with the reasons once half the time is over after which the watchdog ends the worker.
A worker whose loop is blocked gives no answer at all. A Redis that is away is no reason to restart a worker:
it waits, and says so here.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.services.progress import Progress
from app.web.replies import Reply
from app.web.worker import WorkerApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


def add_health_page(application: WorkerApplication, progress: Progress) -> None:
    """Serve `/healthz`."""

    def answer(environ: WSGIEnvironment) -> Reply:
        return health_reply(progress)

    application.add("GET", "/healthz", answer)


def health_reply(progress: Progress) -> Reply:
    """The answer now, JSON."""
    reasons = progress.problems()
    body = {
        "status": "stuck" if reasons else "ok",
        "reasons": reasons,
        "loop_turns": progress.turns,
        "tasks_ended": progress.tasks,
        "tasks_waiting": progress.waiting,
        "idle_turns": progress.idle_turns,
        "redis": progress.redis_problem or "ok",
    }
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return Reply(status, json.dumps(body).encode(), "application/json")
