"""Workers with leases in Redis beside workers with leases in an API server, as while a fleet changes over."""

from __future__ import annotations

import redis

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_presence import RedisPresence
from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder
from tests.fakes.redis_time import elapse

DURATION_S = 60.0
NAMES = [BucketName(name) for name in bucket_names(3)]
ONE, TWO, THREE = NAMES
ANN, BOB = Holder("ann_10.0.0.1", "agent-ann"), Holder("bob_10.0.0.2", "agent-bob")


def test_while_workers_have_their_leases_elsewhere_nobody_acquires_in_redis_and_what_is_held_there_is_told(
    redis_url: str, redis_prefix: str
) -> None:
    client, connection, keys = (
        redis.Redis.from_url(redis_url),
        RedisConnection(redis_url),
        RedisKeys(redis_prefix),
    )
    presence = RedisPresence(connection, keys, NAMES, duration_s=DURATION_S)
    leases = RedisLeases(connection, keys, NAMES, duration_s=DURATION_S)
    leases.round(BOB, {})
    elapse(client, redis_prefix, DURATION_S + 1)
    held = leases.acquire(BOB, [ONE], FencingToken(0))
    told = presence.beat(ANN, {}).in_redis
    assert told.keys() == {ONE} == presence.look().in_redis.keys()
    assert (told[ONE].holder, told[ONE].token) == (BOB, held[ONE])
    assert told[ONE].remaining_ms > 0
    assert leases.acquire(BOB, [TWO], FencingToken(0)) == {}
    assert leases.round(BOB, held).renewed == {ONE}
    leases.release(BOB, held)
    assert presence.beat(ANN, {ONE: FencingToken(held[ONE] + 1)}).in_redis == {}
    elapse(client, redis_prefix, DURATION_S - 1)
    assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
    elapse(client, redis_prefix, 2)
    assert leases.acquire(BOB, [ONE], FencingToken(0))[ONE] > held[ONE] + 1
    connection.close()
    client.close()
