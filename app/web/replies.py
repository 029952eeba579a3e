"""Small helpers of all WSGI applications here: read a bounded body, answer with text or JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from app.protocols.printable import printable

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

MAX_TEXT = 2_000
"""Characters of an error's text."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole.

    Attributes:
        allow: the methods that a 405 names.
        is_last: whether the connection ends behind it.
        challenge: how a 401 says what is asked for.
    """

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    allow: str = ""
    is_last: bool = False
    challenge: str = ""

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        """Hand it to the WSGI server."""
        headers = [("Content-Type", self.content_type), ("Content-Length", str(len(self.body)))]
        if self.allow:
            headers.append(("Allow", self.allow))
        if self.challenge:
            headers.append(("WWW-Authenticate", self.challenge))
        if self.is_last:
            headers.append(("Connection", "close"))
        start_response(f"{self.status.value} {self.status.phrase}", headers)
        return [self.body]


def respond(
    route: Callable[[WSGIEnvironment], Reply], environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Answer one request; what `route` raises is a bug of ours, and a 500, but OSError: the peer has gone."""
    try:
        reply = route(environ)
    except OSError:
        raise
    except Exception:
        logger.exception("request failed: a bug")
        reply = text_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the log has more")
    return reply.send(start_response)


def text_reply(status: HTTPStatus, text: str) -> Reply:
    """A line of text; what peers have put into it is escaped."""
    return Reply(status, printable(text, MAX_TEXT).encode())


def wrong_method(allow: str) -> Reply:
    """A 405 that names the methods which are served."""
    return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"method not allowed", allow=allow)


def json_reply(value: object) -> Reply:
    """A 200 with JSON."""
    return Reply(HTTPStatus.OK, json.dumps(value).encode(), "application/json")


def read_body(environ: WSGIEnvironment, max_bytes: int) -> bytes | None:
    """The request's body; None if it is longer than `max_bytes`, of which no more is read then."""
    body: bytes = environ["wsgi.input"].read(max_bytes + 1)
    return None if len(body) > max_bytes else body
