"""`GET /readyz`: whether a process can do its work now; and both health pages for processes of one loop.

200 and `ready`, or 503 with the reasons. `/healthz` asks for a restart, this one only says: not yet, or not
now. Neither asks for a token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.services.pulse import Pulse
from app.web.replies import Reply
from app.web.worker import WorkerApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

Reasons = Callable[[], Sequence[str]]
"""Why a process can't do its work now; none: it can."""


def add_ready_page(application: WorkerApplication, reasons: Reasons) -> None:
    """Serve `/readyz`."""

    def answer(environ: WSGIEnvironment) -> Reply:
        return ready_reply(reasons())

    application.add("GET", "/readyz", answer)


def add_pulse_page(
    application: WorkerApplication, pulse: Pulse, facts: Callable[[], dict[str, object]]
) -> None:
    """Serve `/healthz` of a process whose one loop must turn."""

    def answer(environ: WSGIEnvironment) -> Reply:
        return pulse_reply(pulse, facts())

    application.add("GET", "/healthz", answer)


def ready_reply(reasons: Sequence[str]) -> Reply:
    """The answer, JSON: `status` is ready or waiting."""
    return _reply({"status": "waiting" if reasons else "ready", "reasons": list(reasons)}, is_ok=not reasons)


def pulse_reply(pulse: Pulse, facts: dict[str, object]) -> Reply:
    """The answer, JSON: `status` is ok or stuck."""
    problem = pulse.problem()
    body = {
        "status": "stuck" if problem else "ok",
        "reasons": [problem] if problem else [],
        "turns": pulse.turns,
    }
    return _reply(body | facts, is_ok=not problem)


def _reply(body: dict[str, object], *, is_ok: bool) -> Reply:
    status = HTTPStatus.OK if is_ok else HTTPStatus.SERVICE_UNAVAILABLE
    return Reply(status, json.dumps(body).encode(), "application/json")
