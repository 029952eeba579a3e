"""Asks the informants of all VMs of a worker over HTTP, as their agents do (`spec/informant.md`)."""

from __future__ import annotations

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.ports.vm import Address


class InformantsHttp:
    """Any number of informants; a connection each time, since each is asked seldom.

    Args:
        bearer: a token that lets us in, where informants ask for one.
        tls: whom we believe, where informants speak TLS; None: plain HTTP.
    """

    def __init__(self, *, bearer: str | None = None, tls: ClientTls | None = None) -> None:
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._scheme = "http" if tls is None else "https"
        self._session = deadline_session(tls)

    def request(
        self, informant: Address, method: str, path: str, body: bytes, *, timeout_s: float
    ) -> tuple[int, bytes]:
        """See `InformantClient.request`."""
        host = f"[{informant.host}]" if ":" in informant.host else informant.host
        peer = f"{host}:{informant.port}"
        return exchange(
            self._session,
            method,
            f"{self._scheme}://{peer}{path}",
            body,
            headers=self._headers,
            timeout_s=timeout_s,
            peer=f"informant {peer}",
        )

    def close(self) -> None:
        """Close all connections."""
        self._session.close()
