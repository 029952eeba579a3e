"""requests with a limit on the whole answer: its time limit alone counts from one packet to the next.

urllib3 works out what is left of a total limit once, when it begins to read, and sets it on the socket; from
there on each read here gets only the rest of it. So a peer that drips its headers can't hold a caller.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError
from urllib3.poolmanager import SSL_KEYWORDS

from app.adapters.client_tls import ClientTls, connect_tls
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.protocols.printable import printable

LONGEST_HANDSHAKE_S = 60.0
"""Where a request has no limit at all."""
_TLS_MARK = "TLS: "
POOL_HOSTS = 64
"""Peers whose connections are kept."""
POOL_CONNECTIONS = 64
"""Connections kept per peer."""
MAX_ANSWER_BYTES = 64 * 1024
"""Longest body of an answer, where nobody says otherwise."""


class _DeadlineSocket(socket.socket):
    """A socket whose timeout is a deadline that starts when it is set."""

    _deadline: float | None = None

    def settimeout(self, value: float | None) -> None:
        """Start the clock; None for no limit."""
        self._deadline = None if value is None else time.monotonic() + value
        super().settimeout(value)

    def recv_into(self, *arguments: Any) -> int:
        """Like a socket's, within the rest of the time."""
        if self._deadline is not None:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("timed out")
            super().settimeout(remaining)
        return super().recv_into(*arguments)


class _DeadlineConnection(HTTPConnection):
    """A connection over such a socket."""

    def connect(self) -> None:
        """Connect, then change the socket's class by handing its descriptor over."""
        super().connect()
        plain = self.sock
        timeout = plain.gettimeout()
        self.sock = _DeadlineSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self.sock.settimeout(timeout)


class _DeadlinePool(HTTPConnectionPool):
    ConnectionCls = _DeadlineConnection


class _TlsConnection(HTTPConnection):
    """A connection over a `TlsSocket`, whose timeout is such a deadline, too."""

    def __init__(self, *arguments: Any, tls: ClientTls, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tls = tls

    def connect(self) -> None:
        """Connect and shake hands within the limit for connecting."""
        begun = time.monotonic()
        super().connect()
        plain = self.sock
        limit_s = plain.gettimeout()
        rest_s = LONGEST_HANDSHAKE_S if limit_s is None else limit_s - (time.monotonic() - begun)
        try:
            secure = connect_tls(plain, self._tls, self.host.strip("[]"), timeout_s=rest_s)
        except OSError as err:
            plain.close()
            problem = "no handshake in time" if isinstance(err, TimeoutError) else str(err)
            raise NewConnectionError(self, f"{_TLS_MARK}{problem}") from err
        self.sock = cast(socket.socket, secure)
        self.sock.settimeout(limit_s)


class _TlsPool(HTTPConnectionPool):
    """Such connections; what requests says of certificates is not for them."""

    scheme = "https"
    ConnectionCls = _TlsConnection

    def __init__(self, *arguments: Any, **options: Any) -> None:
        kept = {name: value for name, value in options.items() if name not in SSL_KEYWORDS}
        super().__init__(*arguments, **kept)


class _DeadlineAdapter(HTTPAdapter):
    """HTTP through such connections, plain or TLS."""

    def __init__(self, tls: ClientTls | None) -> None:
        self._tls = tls
        super().__init__(POOL_HOSTS, POOL_CONNECTIONS)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        """Called by requests when the adapter is made."""
        self.poolmanager = PoolManager(num_pools=connections, maxsize=maxsize, block=block, **kwargs)
        secure = partial(_TlsPool, tls=self._tls)
        self.poolmanager.pool_classes_by_scheme = {"http": _DeadlinePool, "https": secure}


def deadline_session(tls: ClientTls | None = None) -> requests.Session:
    """A session without proxies, netrc, kept cookies and retries.

    Give each request `timeout=urllib3.Timeout(total=...)`, `stream=True` and `allow_redirects=False`.

    Args:
        tls: whom we believe at `https://` addresses; None: only `http://` ones can be asked.
    """
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("http://", _DeadlineAdapter(None))
    if tls is not None:
        session.mount("https://", _DeadlineAdapter(tls))
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["Accept-Encoding"] = "identity"
    return session


def never_connected(err: requests.ConnectionError) -> str | None:
    """What to tell where no connection was made, so that nothing was sent; None where one was."""
    reason = _cause(err)
    if not isinstance(reason, NewConnectionError):
        return None
    _, mark, problem = str(reason).partition(_TLS_MARK)
    return f"no TLS: {problem}" if mark else "no connection"


def exchange(
    session: requests.Session,
    method: str,
    url: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
    timeout_s: float | None,
    peer: str,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> tuple[int, bytes]:
    """Send one request with a body; the answer's status and body, whatever the status is.

    Args:
        session: as `deadline_session` makes it.
        timeout_s: for connecting, sending and the whole answer together; None: no limit.
        peer: how errors call the other side.

    Raises:
        PeerUnreachable: no connection; nothing was sent.
        PeerTimedOut: no whole answer in time, or the connection was lost meanwhile.
        PeerRefused: a 200 above `max_bytes`; the text of another status is cut there.
    """
    if timeout_s is not None and timeout_s <= 0:
        raise PeerUnreachable(peer, "no time left to ask")
    limit: Any = urllib3.Timeout(total=timeout_s)
    try:
        with session.request(
            method, url, data=body, headers=headers, timeout=limit, stream=True, allow_redirects=False
        ) as response:
            answer = _read_body(response, max_bytes)
            code = response.status_code
    except (InvalidURL, InvalidSchema, MissingSchema) as err:
        raise PeerUnreachable(peer, "no http:// or https:// address") from err
    except requests.ConnectTimeout as err:
        raise PeerUnreachable(peer, "no connection in time") from err
    except requests.ConnectionError as err:
        if (problem := never_connected(err)) is not None:
            raise PeerUnreachable(peer, problem) from err
        raise PeerTimedOut(peer, "the connection was lost before the answer came") from err
    except (requests.Timeout, urllib3.exceptions.TimeoutError) as err:
        raise PeerTimedOut(peer, "no answer in time") from err
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as err:
        raise PeerTimedOut(peer, f"the answer broke off: {printable(str(err))}") from err
    if code == 200 and len(answer) > max_bytes:
        raise PeerRefused(peer, f"an answer above {max_bytes} bytes")
    return code, answer


def _read_body(response: requests.Response, max_bytes: int) -> bytes:
    """The body, cut above the limit; reads on to the end of the stream, which shows what broke off."""
    body = b""
    while len(body) <= max_bytes:
        piece: bytes = response.raw.read(max_bytes + 1 - len(body), decode_content=False)
        if not piece:
            break
        body += piece
    return body


def _cause(err: requests.ConnectionError) -> object:
    """What is behind requests' error: urllib3's reason, without its wrappers."""
    inner = err.args[0] if err.args else None
    return inner.reason if isinstance(inner, urllib3.exceptions.MaxRetryError) else inner
