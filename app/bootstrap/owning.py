"""What the operator's commands about ownership need: resize, drain, leases."""

from __future__ import annotations

import time

from app.adapters.clock import SystemClock
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_drains import RedisDrains
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_resize import RedisResize
from app.bootstrap.stores import Stores
from app.config import Settings
from app.services.draining import Draining
from app.services.lease_listing import LeaseListing
from app.services.resizing import Resizing


def build_resizing(settings: Settings) -> Resizing:
    """What is behind `buckets resize`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    store = RedisResize(
        RedisConnection(settings.redis),
        RedisKeys(settings.key_prefix),
        settings.broker_prefix,
        duration_s=settings.ownership.lease_duration_seconds,
    )
    return Resizing(store, Stores(settings).agents)


def build_draining(settings: Settings) -> Draining:
    """What is behind `drain`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    stores = Stores(settings)
    drains = RedisDrains(RedisConnection(settings.redis), RedisKeys(settings.key_prefix))
    return Draining(drains, stores.leases, stores.agents, SystemClock(), time.sleep)


def build_lease_listing(settings: Settings) -> LeaseListing:
    """What is behind `leases`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    stores = Stores(settings)
    return LeaseListing(stores.leases, stores.states, stores.ticks, stores.names)
