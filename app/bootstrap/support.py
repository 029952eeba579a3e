"""What `dump` and `support-bundle` need: the workers' pages, and everything that Redis has of the fleet."""

from __future__ import annotations

import platform
from importlib import metadata

from app.adapters.build_info import build_info
from app.adapters.clock import SystemClock
from app.adapters.pages_http import Entry, PagesHttp
from app.adapters.redis_connection import RedisConnection
from app.bootstrap.security import bearer, peer_tls
from app.config import Settings
from app.config.security_section import ServerSecurity
from app.services.dump_gathering import DumpGathering
from app.services.plain_threads import PlainThreads

LIBRARIES = (
    *("celery", "kombu", "celery-redbeat", "redis", "gevent", "flower", "pydantic", "requests", "urllib3"),
    *("kubernetes", "prometheus-client", "websocket-client", "h11", "wsproto"),
)
"""Whose versions a bug report names."""


def build_pages(settings: Settings) -> PagesHttp:
    """Asks our own processes, with the tokens that the configuration has their callers send.

    Raises:
        ConfigurationError: a token's file or the authorities' can't be read.
    """
    servers, where = settings.security.servers, ".security.servers"
    web = _entry(servers.web, f"{where}.web")
    scheduler = _entry(servers.node_scheduler, f"{where}.nodeScheduler")
    tls = peer_tls(settings.security.peers.fleet, ".security.peers.fleet")
    return PagesHttp({"worker": web, "beat": web, "scheduler": scheduler}, tls)


def build_dump_gathering(settings: Settings) -> DumpGathering:
    """What is behind `dump`.

    Raises:
        ConfigurationError: a token's file or the authorities' can't be read.
    """
    return DumpGathering(build_pages(settings), SystemClock(), PlainThreads())


def redis_facts(settings: Settings) -> str:
    """What Redis says about itself: `INFO`, as it is.

    Raises:
        StoreUnavailable: no answer, or this user may not ask.
        ConfigurationError: Redis' address or its password file can't be read.
    """
    answer: bytes = RedisConnection(settings.redis).execute("INFO")
    return answer.decode(errors="replace").replace("\r\n", "\n")


def versions() -> dict[str, object]:
    """The build, the machine, and the libraries that matter for a bug report."""
    found: dict[str, object] = {**build_info(), "platform": platform.platform()}
    libraries: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            libraries[name] = None
    return {**found, "libraries": libraries}


def _entry(server: ServerSecurity, where: str) -> Entry:
    return Entry(bearer(server.token_file, f"{where}.tokenFile"), server.tls_cert_file is not None)
