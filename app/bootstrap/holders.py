"""Who holds the buckets, for a command that can do without knowing."""

from __future__ import annotations

from app.adapters.redis_connection import RedisConnection
from app.bootstrap.leases import build_lease_reader
from app.config import Settings
from app.ports.store import LeaseReader

QUICK_S = 0.5
"""How long Redis may take for its answer; longer counts as away."""

QUICK_LIST_S = 2.0
"""How long an API server may take; its client alone takes half a second to load."""


def build_quick_leases(settings: Settings) -> LeaseReader:
    """Reads leases or fails at once.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    connection = RedisConnection(settings.redis, socket_timeout_s=QUICK_S)
    return build_lease_reader(settings, connection, timeout_s=QUICK_LIST_S)
