"""A worker's own HTTP server: a table of pages, each over a service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.web.replies import Reply, respond, text_reply, wrong_method

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Handler = Callable[["WSGIEnvironment"], Reply]
"""Answers one request; an error that leaves it is a bug."""


class WorkerApplication:
    """The WSGI application; pages are added before the server starts."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve a method of a page, such as `GET` of `/healthz`; whoever serves GET serves HEAD, too."""
        self._pages.setdefault(path, {})[method] = handler

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return respond(self._route, environ, start_response)

    def _route(self, environ: WSGIEnvironment) -> Reply:
        page = self._pages.get(environ.get("PATH_INFO") or "/")
        if page is None:
            return text_reply(HTTPStatus.NOT_FOUND, "no such page")
        method = environ["REQUEST_METHOD"]
        handler = page.get("GET" if method == "HEAD" else method)
        if handler is None:
            allow = ", ".join(sorted({*page, "HEAD"} if "GET" in page else page))
            return wrong_method(allow)
        return handler(environ)
