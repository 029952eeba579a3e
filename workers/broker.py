"""Where the broker is, in the spelling of Celery and Flower, and how patient its sockets are.

Our own transport reaches Redis by the settings themselves (`workers.transport`); the address here is what is
shown, and what Flower's own client uses.
Sources: measured on Celery and kombu 5.7 with gevent (docs/architecture.md, "Celery settings").
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, urlunsplit

from app.adapters.redis_access import sentinel_places, tls_options
from app.adapters.redis_queues import SCALING_PRIORITY, TICK_PRIORITY
from app.config.redis_section import RedisSettings
from app.config.settings import Settings


def broker_url(redis: RedisSettings, *, with_password: bool) -> str:
    """The Redis of the configuration as kombu names it; of several Sentinels the first.

    Raises:
        ConfigurationError: the password's file can't be read.
    """
    parts = (redis.connection_url() if with_password else redis.url).parts
    credentials = ""
    if with_password and parts.password:
        credentials = f"{parts.username or ''}:{quote(parts.password, safe='%')}@"
    if redis.is_socket:
        database = parse_qs(parts.query).get("db", ["0"])[0]
        return f"redis+socket://{credentials}{parts.path}?virtual_host={database}"
    place = parts.netloc.rpartition("@")[2]
    if redis.is_sentinel:
        host, port = sentinel_places(redis)[0]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    scheme = "sentinel" if redis.is_sentinel else parts.scheme
    return urlunsplit((scheme, f"{credentials}{place}", parts.path, "", ""))


def broker_tls(redis: RedisSettings) -> dict[str, Any] | None:
    """Files and rules of TLS, for Flower's client and for kombu's peace of mind; None without TLS."""
    return tls_options(redis) if redis.is_tls else None


def transport_options(settings: Settings, *, with_password: bool) -> dict[str, object]:
    """Options of kombu's Redis transport, and with passwords what Flower's client needs beside them.

    `ack_emulation` off: nothing here rests on redelivery, which does not work under gevent, and it triples
    the cost of a task. A prefix other than the default one stands before Celery's own keys too.
    """
    options: dict[str, object] = {
        "ack_emulation": False,
        "priority_steps": [TICK_PRIORITY, SCALING_PRIORITY],
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 5,
        "polling_interval": 0.2,
        # Of a send: its caller has a next turn. The consumer says itself how often it tries.
        "max_retries": 0,
    }
    if with_password and settings.redis.is_sentinel:
        options |= _sentinel_options(settings.redis)
    if settings.broker_prefix:
        options["global_keyprefix"] = settings.broker_prefix
    return options


def _sentinel_options(redis: RedisSettings) -> dict[str, object]:
    """What Flower's client needs to ask a Sentinel."""
    asking: dict[str, object] = {}
    password = redis.sentinel_password()
    if password is not None:
        asking["password"] = password
    if redis.is_tls:
        asking |= {"ssl": True, **tls_options(redis)}
    return {"master_name": redis.master_name, "sentinel_kwargs": asking}
