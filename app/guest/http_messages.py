"""A request and its answer, as handlers of `app.guest.server` see them.

Bodies are whole and bounded by the server before a handler runs. Header names are lower case.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl

Converse = Callable[["Conversation"], Awaitable[None]]
"""Talks on one websocket until it returns; the server closes what is left open."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    Attributes:
        path: without the query, as sent (percent escapes are left alone).
        headers: the last value of a name that came more than once.
        peer: address of the other side, without the port.
        wants_websocket: an `Upgrade: websocket` was asked for.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    peer: str
    wants_websocket: bool = False

    def parameters(self) -> dict[str, str]:
        """The query's parameters, the last of a name; at most 20 are read.

        Raises:
            ValueError: there are more.
        """
        return dict(parse_qsl(self.query, keep_blank_values=True, max_num_fields=20))


@dataclass(frozen=True, slots=True)
class Response:
    """What to answer; `headers` come beside content type, content length and date."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Take the websocket and talk on it; a 426 where the client did not ask for one."""

    converse: Converse


Handler = Callable[[Request], Awaitable[Response | Upgrade]]


class Conversation(Protocol):
    """An open websocket."""

    async def receive(self) -> str | bytes:
        """The next whole message. Raises `app.guest.websocket.WebSocketClosed` at the end."""
        ...

    async def send(self, text: str) -> None:
        """Send one text message. Raises `app.guest.websocket.WebSocketClosed`."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame; a second time does nothing."""
        ...


def text_response(text: str, status: int = 200) -> Response:
    """A line of text, with a line feed at its end."""
    return Response(status, text.encode("utf-8", "replace") + b"\n")


def json_response(value: object, status: int = 200) -> Response:
    """Compact JSON; `value` holds plain types only."""
    body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return Response(status, body, "application/json")
