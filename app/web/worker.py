"""A worker's own HTTP server: a table of pages, each over a service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.web.replies import Reply, text_reply

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

Handler = Callable[["WSGIEnvironment"], Reply]
"""Answers one request; an error that leaves it is a bug."""


class WorkerApplication:
    """The WSGI application; pages are added before the server starts."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve a method of a page, such as `GET` of `/healthz`."""
        self._pages.setdefault(path, {})[method] = handler

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        try:
            reply = self._route(environ)
        except OSError:
            raise  # The peer has gone in the middle of its body.
        except Exception:
            logger.exception("request failed: a bug")
            reply = text_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the log has more")
        return reply.send(start_response)

    def _route(self, environ: WSGIEnvironment) -> Reply:
        page = self._pages.get(environ.get("PATH_INFO") or "/")
        if page is None:
            return text_reply(HTTPStatus.NOT_FOUND, "no such page")
        handler = page.get(environ["REQUEST_METHOD"])
        if handler is None:
            allow = ", ".join(sorted(page))
            return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"method not allowed", allow=allow)
        return handler(environ)
