"""One look at a Redis, for `vmscaler doctor`: what it says of itself, and how it takes us."""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import RedisError

from app.adapters.redis_access import RedisAccess, redis_access
from app.adapters.redis_connection import RedisConnection, now_ms, pairs
from app.config.redis_section import RedisSettings
from app.errors import StoreUnavailable
from app.ports.probes import RedisFacts

TRIPS = 5
PATIENCE_S = 2.0
"""For each answer; there are about ten."""

_CREDENTIALS = ("username", "password", "credential_provider")


@dataclass(frozen=True, slots=True)
class RedisLook:
    """The `RedisProbe` of one configuration."""

    settings: RedisSettings

    @property
    def is_local(self) -> bool:
        """See `RedisProbe.is_local`."""
        if self.settings.is_socket:
            return True
        return all(_is_loopback(host) for host, _ in self.settings.url.places)

    def look(self) -> RedisFacts:
        """See `RedisProbe.look`."""
        connection = RedisConnection(self.settings, socket_timeout_s=PATIENCE_S)
        try:
            trips, offset_ms = _trips(connection)
            info = _info(connection)
            return RedisFacts(
                version=info.get("valkey_version") or info.get("redis_version"),
                role=info.get("role"),
                policy=info.get("maxmemory_policy"),
                max_bytes=_number(info.get("maxmemory")),
                appends=None if "aof_enabled" not in info else info["aof_enabled"] == "1",
                saves=_saves(connection),
                lets_anyone_in=_lets_anyone_in(redis_access(self.settings)),
                trips_ms=trips,
                clock_ms=offset_ms,
            )
        finally:
            connection.close()


def _trips(connection: RedisConnection) -> tuple[list[float], int]:
    """Times of round trips, and by how much its clock is ahead of ours."""
    connection.execute("PING")
    times, offset_ms = [], 0
    for _ in range(TRIPS):
        began, wall = time.monotonic(), time.time()
        answer = connection.execute("TIME")
        took = time.monotonic() - began
        times.append(took * 1000)
        offset_ms = round(now_ms(answer) - (wall + took / 2) * 1000)
    return times, offset_ms


def _info(connection: RedisConnection) -> dict[str, str]:
    """What INFO tells, in lines of `name:value`; nothing where this user may not ask."""
    try:
        answer: bytes = connection.execute("INFO")
    except StoreUnavailable:
        return {}
    lines = [line.partition(":") for line in answer.decode(errors="replace").splitlines()]
    return {name: value.strip() for name, mark, value in lines if mark}


def _saves(connection: RedisConnection) -> str | None:
    try:
        found = dict(pairs(connection.execute("CONFIG", "GET", "save")))
    except StoreUnavailable:
        return None
    return found.get(b"save", b"").decode(errors="replace")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _lets_anyone_in(access: RedisAccess) -> bool:
    """Whether a connection without user and password is answered."""
    options = {name: value for name, value in access.options.items() if name not in _CREDENTIALS}
    bare = RedisAccess(access.connection_class, options, access.peer)
    client: Any = redis.Redis(connection_pool=bare.pool(socket_timeout_s=PATIENCE_S, protocol=2))
    try:
        return bool(client.execute_command("PING"))
    except (RedisError, OSError):
        # It has answered a moment ago: one that drops strangers does not let them in.
        return False
    finally:
        client.connection_pool.disconnect()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
