"""Whether something listens, and answers HTTP, for `vmscaler doctor`."""

from __future__ import annotations

import socket

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, exchange
from app.errors import PeerTimedOut, PeerUnreachable
from app.protocols.printable import printable


class NetworkReach:
    """The `Reach` of this machine.

    Args:
        tls: whom we believe at https:// addresses.
    """

    def __init__(self, tls: ClientTls | None) -> None:
        """Nothing connects yet."""
        self._session = deadline_session(tls)

    def connect(self, host: str, port: int, *, timeout_s: float) -> None:
        """See `Reach.connect`."""
        peer = printable(f"{host}:{port}", 300)
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except TimeoutError as err:
            raise PeerTimedOut(peer, "no connection in time") from err
        except OSError as err:
            raise PeerUnreachable(peer, f"no connection: {err.strerror or err}") from err

    def status(self, url: str, *, timeout_s: float) -> int:
        """See `Reach.status`."""
        headers = {"Connection": "close"}
        peer = printable(url, 300)
        code, _ = exchange(self._session, "GET", url, b"", headers=headers, timeout_s=timeout_s, peer=peer)
        return code
