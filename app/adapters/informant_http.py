"""Asks informants over HTTP, as an agent does (`spec/informant.md`)."""

from __future__ import annotations

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange


class InformantHttp:
    """One informant, over connections that are kept alive.

    Args:
        url: of its server, `http://` or `https://`, without a path's slash at the end.
        bearer: a token that lets us in, for informants that ask for one.
        tls: whom we believe at an https:// address; None: that can't be asked.
    """

    def __init__(self, url: str, *, bearer: str | None = None, tls: ClientTls | None = None) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._session = deadline_session(tls)

    def request(self, method: str, path: str, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """One request; the answer's status and body, whatever the status is.

        Args:
            path: with its slash.
            timeout_s: for connecting, sending and the whole answer together.

        Raises:
            PeerUnreachable: no connection; nothing was sent.
            PeerTimedOut: no whole answer in time, or the connection was lost meanwhile.
            PeerRefused: a 200 with an answer above 64 KB.
        """
        return exchange(
            self._session,
            method,
            self._url + path,
            body,
            headers=self._headers,
            timeout_s=timeout_s,
            peer=f"informant {self._url.partition('://')[2]}",
        )

    def close(self) -> None:
        """Close all connections."""
        self._session.close()
