"""requests with a limit on the whole answer: its time limit alone counts from one packet to the next.

urllib3 works out what is left of a total limit once, when it begins to read, and sets it on the socket; from
there on each read here gets only the rest of it. So a peer that drips its headers can't hold a caller.
"""

from __future__ import annotations

import socket
import time
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection

POOL_HOSTS = 64
"""Peers whose connections are kept."""
POOL_CONNECTIONS = 64
"""Connections kept per peer."""


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


class _DeadlineAdapter(HTTPAdapter):
    """Plain HTTP through such connections."""

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        """Called by requests when the adapter is made."""
        self.poolmanager = PoolManager(num_pools=connections, maxsize=maxsize, block=block, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _DeadlinePool}


def deadline_session() -> requests.Session:
    """A session for `http://` only: no proxies, no netrc, no cookies kept, no retries.

    Give each request `timeout=urllib3.Timeout(total=...)`, `stream=True` and `allow_redirects=False`.
    """
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("http://", _DeadlineAdapter(POOL_HOSTS, POOL_CONNECTIONS))
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["Accept-Encoding"] = "identity"
    return session
