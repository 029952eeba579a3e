"""`POST /v1/stats`: VMs that can't be polled push their samples (docs/stats.md)."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.services.stat_intake import Answer, StatIntake
from app.web.replies import Reply, read_body, text_reply
from app.web.worker import WorkerApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

STATS_PATH = "/v1/stats"

MAX_TOKEN_LENGTH = 200
"""Characters; ours have 64."""

STATUSES = {
    Answer.TAKEN: HTTPStatus.ACCEPTED,
    Answer.BAD: HTTPStatus.BAD_REQUEST,
    Answer.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
    Answer.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Answer.BUSY: HTTPStatus.TOO_MANY_REQUESTS,
}
"""How each verdict is told."""


def add_stats_page(application: WorkerApplication, intake: StatIntake) -> None:
    """Let the worker take stats."""

    def post(environ: WSGIEnvironment) -> Reply:
        token = _bearer(environ.get("HTTP_AUTHORIZATION", ""))
        body = read_body(environ, intake.max_bytes)
        if body is None:
            text = f"the body is longer than {intake.max_bytes} bytes".encode()
            return Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, is_last=True)
        verdict = intake.receive(body, token)
        reply = text_reply(STATUSES[verdict.answer], verdict.text)
        return replace(reply, challenge="Bearer") if verdict.answer is Answer.UNAUTHORIZED else reply

    application.add("POST", STATS_PATH, post)


def _bearer(header: str) -> str:
    """The token of an `Authorization` header; "" where there is none that could be right."""
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token.isascii() or len(token) > MAX_TOKEN_LENGTH:
        return ""
    return token
