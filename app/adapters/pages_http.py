"""Reads pages of our own processes over HTTP, for the operator's commands."""

from __future__ import annotations

from dataclasses import dataclass

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.errors import PeerRefused
from app.protocols.printable import printable


@dataclass(frozen=True, slots=True)
class Entry:
    """What lets us in at one kind of process.

    Attributes:
        bearer: the token that it asks for; None: none.
        is_tls: whether it speaks TLS.
    """

    bearer: str | None = None
    is_tls: bool = False


class PagesHttp:
    """See `PageReader`; a connection for each page.

    Args:
        entries: by kind of process; any other kind is asked without anything.
        tls: whom we believe.
    """

    def __init__(self, entries: dict[str, Entry], tls: ClientTls) -> None:
        self._entries = entries
        self._session = deadline_session(tls)

    def read(self, kind: str, address: str, path: str, *, timeout_s: float, max_bytes: int) -> bytes:
        """See `PageReader.read`."""
        entry = self._entries.get(kind, Entry())
        headers = {"Connection": "close"}
        if entry.bearer is not None:
            headers["Authorization"] = f"Bearer {entry.bearer}"
        scheme, peer = "https" if entry.is_tls else "http", printable(address, 100)
        code, body = exchange(
            self._session,
            "GET",
            f"{scheme}://{address}{path}",
            b"",
            headers=headers,
            timeout_s=timeout_s,
            peer=peer,
            max_bytes=max_bytes,
        )
        if code != 200:
            text = printable(body[:400].decode(errors="replace").strip(), 200)
            raise PeerRefused(peer, f"status {code}: {text}" if text else f"status {code}", code=code)
        return body
