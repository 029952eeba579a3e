"""What Redis holds, for every process alike."""

from __future__ import annotations

from app.adapters.redis_agent_set import RedisAgentSet
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_billing import RedisBilling
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_intents import RedisIntents
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_queues import RedisQueues
from app.adapters.redis_recordings import RedisRecordings
from app.adapters.redis_state import RedisState
from app.adapters.redis_stats import RedisStats
from app.adapters.redis_ticks import RedisTicks
from app.bootstrap.leases import build_lease_reader
from app.cluster.ring import BucketSet
from app.config import Settings
from app.ports.store import BucketName
from app.services.informant_directory import ENTRY_LIVES_S


class Stores:
    """Everything that Redis holds, over one pool of connections; connects at the first call.

    Raises:
        ConfigurationError: Redis' address or its password file can't be read.
    """

    def __init__(self, settings: Settings) -> None:
        connection = self.connection = RedisConnection(settings.redis)
        keys = RedisKeys(settings.key_prefix)
        self.ring = BucketSet(settings.ownership.buckets)
        self.names = tuple(BucketName(name) for name in self.ring.names)
        self.states = RedisState(connection, keys)
        self.agents = RedisAgents(connection, keys)
        self.informant_agents = RedisAgentSet(connection, keys, ttl_s=ENTRY_LIVES_S)
        self.intents = RedisIntents(connection, keys)
        self.recordings = RedisRecordings(connection, keys)
        self.ticks = RedisTicks(connection, keys)
        self.queues = RedisQueues(connection, settings.broker_prefix)
        self.stats = RedisStats(connection, keys)
        self.billing = RedisBilling(connection, keys)
        self.leases = build_lease_reader(settings, connection)
