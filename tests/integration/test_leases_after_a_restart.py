"""A Redis that restarts with its data is a new epoch: holders go on, nobody else takes anything yet."""

from __future__ import annotations

import redis

from app.adapters.embedded_redis import EmbeddedRedis, start_embedded
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder
from tests.fakes.redis_time import elapse

DURATION_S = 600.0
ONE, TWO = (BucketName(name) for name in bucket_names(2))
ANN, BOB = Holder("ann_10.0.0.1", "ann"), Holder("bob_10.0.0.2", "bob")


def test_nobody_acquires_after_a_restart_and_the_holder_keeps_its_token(own_redis: EmbeddedRedis) -> None:
    connection, client = RedisConnection(own_redis.url), redis.Redis.from_url(own_redis.url)
    leases = RedisLeases(connection, RedisKeys("p"), [ONE, TWO], duration_s=DURATION_S)
    leases.round(ANN, {})
    elapse(client, "p", DURATION_S + 1)
    held = leases.acquire(ANN, [ONE], FencingToken(0))
    own_redis.stop()
    again = start_embedded(own_redis.socket_path.parent)
    try:
        assert leases.acquire(BOB, [TWO], FencingToken(0)) == {}
        assert leases.round(ANN, held).renewed == {ONE}
        assert leases.view().leases[ONE].token == held[ONE]
        assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
        elapse(client, "p", DURATION_S - 10)
        assert leases.round(ANN, held).renewed == {ONE}
        assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)) == {}
        elapse(client, "p", 11)
        assert leases.acquire(BOB, [ONE, TWO], FencingToken(0)).keys() == {TWO}
    finally:
        client.close()
        connection.close()
        again.stop()
