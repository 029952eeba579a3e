"""Who holds the buckets, for a command that can do without knowing."""

from __future__ import annotations

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.config import Settings
from app.ports.store import LeaseReader

QUICK_S = 0.5
"""How long Redis may take for its answer; longer counts as away."""


def build_quick_leases(settings: Settings) -> LeaseReader:
    """Reads leases or fails at once.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    return RedisLeases(
        RedisConnection(settings.redis, socket_timeout_s=QUICK_S),
        RedisKeys(settings.key_prefix),
        bucket_names(settings.ownership.buckets),
        duration_s=settings.ownership.lease_duration_seconds,
    )
