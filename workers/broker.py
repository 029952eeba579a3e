"""Where the broker is, in the spelling of Celery, and how patient its sockets are.

Sources: measured on Celery and kombu 5.7 with gevent (docs/architecture.md, "Celery settings").
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote

from app.config.settings import Settings


def broker_url(settings: Settings) -> str:
    """The Redis of the configuration as kombu wants it: a unix socket is `redis+socket://` there."""
    url = settings.redis.connection_url()
    parts = url.parts
    if parts.scheme != "unix":
        return url.reveal()
    database = parse_qs(parts.query).get("db", ["0"])[0]
    credentials = f":{quote(parts.password, safe='')}@" if parts.password else ""
    return f"redis+socket://{credentials}{parts.path}?virtual_host={database}"


def transport_options(settings: Settings, default_prefix: str) -> dict[str, object]:
    """Options of kombu's Redis transport.

    `ack_emulation` off: nothing here rests on redelivery, which does not work under gevent, and it triples
    the cost of a task. A prefix other than the default one stands before Celery's own keys too.
    """
    options: dict[str, object] = {
        "ack_emulation": False,
        "priority_steps": [0],
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 5,
        "polling_interval": 0.2,
    }
    if settings.key_prefix != default_prefix:
        options["global_keyprefix"] = f"{settings.key_prefix}:"
    return options


def beat_client_options(settings: Settings) -> dict[str, object]:
    """The same patience for the client that RedBeat makes; a unix socket knows no connecting in time."""
    options: dict[str, object] = {"socket_timeout": 5, "health_check_interval": 5}
    if settings.redis.connection_url().parts.scheme != "unix":
        options |= {"socket_connect_timeout": 2, "socket_keepalive": True}
    return options
