"""How connections to Redis are made: address, Sentinel, TLS, passwords, patience.

One place for all who talk to Redis: our stores, the broker's transport, beat's lock and schedule.
A connection that finds its server read-only is closed, so that the next one looks for the master anew.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

import redis
from pydantic import ValidationError
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, ReadOnlyError, ResponseError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from app.config.redis_section import RedisSettings
from app.errors import ConfigurationError

CONNECT_TIMEOUT_S = 2.0
"""To open a connection."""

SOCKET_TIMEOUT_S = 5.0
"""For each answer; a lease outlasts two of these."""

SENTINEL_TIMEOUT_S = 1.0
"""For each answer of a Sentinel; there are others to ask."""

HEALTH_CHECK_S = 5
"""A connection that was idle for so long is asked before it is used."""

MAX_CONNECTIONS = 64
"""Per pool; as many polls and scaling tasks as a worker has at once."""

KEEPALIVE_OPTIONS = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}
"""A peer that is gone without a word is noticed after 11 s: the system's own patience is two hours."""

_REDIS_PORT, _SENTINEL_PORT = 6379, 26379


class _MasterOnly:
    """What every connection here does: look for the master where there are Sentinels, and leave a replica.

    Args:
        find_master: host and port of the master now; None: those of `options`.
    """

    def __init__(self, *, find_master: Callable[[], tuple[str, int]] | None = None, **options: Any) -> None:
        self._find_master = find_master
        super().__init__(**options)

    def _connect(self) -> Any:
        if self._find_master is not None:
            self.host, self.port = self._find_master()
        return super()._connect()  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """See redis-py; a read-only server is no master any more, also where a script hits on it."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except ResponseError as err:
            if isinstance(err, ReadOnlyError) or "READONLY" in str(err):
                self.disconnect()  # type: ignore[attr-defined]
            raise


class PlainConnection(_MasterOnly, redis.Connection):
    """Over TCP."""


class TlsConnection(_MasterOnly, redis.SSLConnection):
    """Over TLS."""


class SocketConnection(_MasterOnly, redis.UnixDomainSocketConnection):
    """Over a unix socket."""


class FilePassword(CredentialProvider):
    """The password as it is in its file now, so that it can be changed without a restart."""

    def __init__(self, user: str | None, read: Callable[[], str | None]) -> None:
        self._user = user
        self._read = read

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """User, if any, and password; one that can't be read counts as a wrong one."""
        try:
            password = self._read() or ""
        except ConfigurationError as err:
            raise AuthenticationError("; ".join(err.problems)) from None
        return (self._user, password) if self._user else (password,)


@dataclass(frozen=True, slots=True)
class RedisAccess:
    """Where one Redis is and how it is reached; connects to nothing itself.

    Attributes:
        connection_class: what a pool makes its connections of.
        options: arguments for each connection; may hold a password.
        peer: how an operator names this Redis.
    """

    connection_class: type[redis.Connection | redis.UnixDomainSocketConnection]
    options: dict[str, Any]
    peer: str

    def pool(
        self, *, socket_timeout_s: float = SOCKET_TIMEOUT_S, **extra: Any
    ) -> redis.BlockingConnectionPool:
        """A pool that waits for a free connection as long as for an answer."""
        options = self.options | {
            "socket_timeout": socket_timeout_s,
            "connection_class": self.connection_class,
            "max_connections": MAX_CONNECTIONS,
            "timeout": socket_timeout_s,
        }
        if "socket_connect_timeout" in options:
            options["socket_connect_timeout"] = min(CONNECT_TIMEOUT_S, socket_timeout_s)
        return redis.BlockingConnectionPool(**options, **extra)  # type: ignore[no-untyped-call]


def redis_access(where: RedisSettings | str) -> RedisAccess:
    """How the Redis of a configuration is reached; a plain address stands for one without more.

    Raises:
        ConfigurationError: the address or a file can't be read.
    """
    settings = _from_address(where) if isinstance(where, str) else where
    settings.check_files()
    options: dict[str, Any] = {
        "db": _database(settings),
        "socket_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": HEALTH_CHECK_S,
        "retry": Retry(NoBackoff(), 0),
        **_credentials(settings),
    }
    peer = f"redis {settings.shown}"
    if settings.is_socket:
        options["path"] = unquote(settings.url.parts.path)
        return RedisAccess(SocketConnection, options, peer)
    options |= {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "socket_keepalive_options": KEEPALIVE_OPTIONS,
    }
    if settings.is_tls:
        options |= tls_options(settings)
    if settings.is_sentinel:
        options["find_master"] = _master_finder(settings)
    else:
        ((host, port),) = settings.url.places
        options |= {"host": host, "port": port or _REDIS_PORT}
    return RedisAccess(TlsConnection if settings.is_tls else PlainConnection, options, peer)


def tls_options(settings: RedisSettings) -> dict[str, Any]:
    """What redis-py calls the files and rules of TLS."""
    return {
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": settings.tls_check_hostname,
        "ssl_ca_certs": settings.tls_ca_file,
        "ssl_certfile": settings.tls_cert_file,
        "ssl_keyfile": settings.tls_key_file,
    }


def sentinel_places(settings: RedisSettings) -> list[tuple[str, int]]:
    """Host and port of each Sentinel of the address."""
    return [(host, port or _SENTINEL_PORT) for host, port in settings.url.places]


def _from_address(address: str) -> RedisSettings:
    try:
        return RedisSettings.model_validate({"url": address})
    except ValidationError:
        raise ConfigurationError(["the address can't be read"], source="redis.url") from None


def _database(settings: RedisSettings) -> int:
    parts = settings.url.parts
    if settings.is_socket:
        return int(parse_qs(parts.query).get("db", ["0"])[0])
    return int(parts.path.removeprefix("/") or "0")


def _credentials(settings: RedisSettings) -> dict[str, Any]:
    parts = settings.url.parts
    user = unquote(parts.username) if parts.username else None
    if settings.password_file is not None:
        return {"credential_provider": FilePassword(user, settings.file_password)}
    return {"username": user, "password": unquote(parts.password) if parts.password else None}


def _master_finder(settings: RedisSettings) -> Callable[[], tuple[str, int]]:
    options: dict[str, Any] = {
        "socket_timeout": SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": SENTINEL_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
    }
    if settings.sentinel_password_file is not None:
        options["credential_provider"] = FilePassword(None, settings.sentinel_password)
    if settings.is_tls:
        options |= {"ssl": True, **tls_options(settings)}
    sentinels: Any = Sentinel(  # type: ignore[no-untyped-call]
        sentinel_places(settings), sentinel_kwargs=options
    )
    name = settings.master_name or ""

    def find() -> tuple[str, int]:
        try:
            host, port = sentinels.discover_master(name)
        except MasterNotFoundError:
            told = f"no Sentinel answers and knows a master named {name} that is up"
            raise MasterNotFoundError(told) from None
        return str(host), int(port)

    return find
