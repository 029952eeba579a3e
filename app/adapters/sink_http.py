"""Posts events over HTTP: batches to a sink (`spec/agent.md`, "Billing"), single ones to a webhook."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.errors import PeerRefused
from app.protocols.printable import printable

TRACE_HEADER = "x-trace-id"
"""New for each try, so that a request can be found in the sink's log."""


class HttpSink:
    """The `EventSink` port over connections that are kept alive; only a 200 counts.

    Args:
        url: where to post; may hold a password.
        shown: the same address as errors may show it.
        bearer: a token that lets us in.
        tls: whom we believe at an https:// address.
    """

    name = "http"

    def __init__(
        self, url: str, shown: str, *, bearer: str | None = None, tls: ClientTls | None = None
    ) -> None:
        self._post = HttpPoster(url, f"sink {shown}", tls, bearer=bearer)

    def send(self, events: Sequence[bytes], *, label: str, timeout_s: float) -> None:
        """See `EventSink.send`."""
        body = b'{"events":[' + b",".join(events) + b"]}"
        code = self._post.post(body, {}, timeout_s=timeout_s)
        if code != 200:
            raise PeerRefused(self._post.peer, f"HTTP status {code}", code=code)

    def close(self) -> None:
        """See `EventSink.close`."""
        self._post.close()


class HttpPoster:
    """Posts JSON to one address; the `WebhookPoster` port.

    Args:
        peer: how errors call the other side.
        bearer: a token that lets us in.
    """

    def __init__(self, url: str, peer: str, tls: ClientTls | None, *, bearer: str | None = None) -> None:
        self._url = url
        self.peer = peer
        self._session = deadline_session(tls)
        if bearer is not None:
            self._session.headers["Authorization"] = f"Bearer {bearer}"

    def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> int:
        """POST a body; the status of the answer below 300, redirects are not followed.

        Raises:
            PeerError: no answer, or one of 300 and above; its first words are in the text.
        """
        sent = {"Content-Type": "application/json", TRACE_HEADER: uuid.uuid4().hex, **headers}
        code, answer = exchange(
            self._session, "POST", self._url, body, headers=sent, timeout_s=timeout_s, peer=self.peer
        )
        if code >= 300:
            text = printable(answer.decode("utf-8", "replace"))
            raise PeerRefused(
                self.peer, f"HTTP status {code} (trace {sent[TRACE_HEADER]}): {text}", code=code
            )
        return code

    def close(self) -> None:
        """Close all connections."""
        self._session.close()
