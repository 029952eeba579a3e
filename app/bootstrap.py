"""Builds the application from settings; the only place that knows services and adapters.

Nothing connects before the first call.
"""

from __future__ import annotations

import time
import uuid

from app.adapters.clock import SystemClock
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_state import RedisState
from app.cluster.ring import BucketSet
from app.config import Settings
from app.ports.store import BucketName
from app.services.inspection import Buckets, Inspection, Sources
from app.services.instructing import Instructing


def build_inspection(settings: Settings) -> Inspection:
    """The reader behind the operator's commands and the demo's screen.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    connection = RedisConnection(settings.redis.connection_url().reveal())
    keys = RedisKeys(settings.key_prefix)
    bucket_set = BucketSet(settings.ownership.buckets)
    names = tuple(BucketName(name) for name in bucket_set.names)
    leases = RedisLeases(connection, keys, names, duration_s=settings.ownership.lease_duration_seconds)
    sources = Sources(
        states=RedisState(connection, keys),
        leases=leases,
        agents=RedisAgents(connection, keys),
        intents=RedisIntents(connection, keys),
        clock=SystemClock(),
    )
    buckets = Buckets(names, owner=lambda key: BucketName(bucket_set.owner(key)))
    return Inspection(sources, buckets, poll_period_s=settings.metrics.seconds_between_requests)


def build_intents(settings: Settings) -> Instructing:
    """The writer behind `pause`, `resume` and `vm set`.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """
    connection = RedisConnection(settings.redis.connection_url().reveal())
    keys = RedisKeys(settings.key_prefix)
    return Instructing(
        intents=RedisIntents(connection, keys),
        states=RedisState(connection, keys),
        clock=SystemClock(),
        new_id=lambda: str(uuid.uuid4()),
        sleep=time.sleep,
    )
