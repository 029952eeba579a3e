"""A field that is no number (an operator's hand, another program) spoils its own bucket at most."""

from __future__ import annotations

import pytest
import redis

from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder
from tests.fakes.redis_time import elapse

DURATION_S = 600.0
ONE, TWO = (BucketName(name) for name in bucket_names(2))
ANN = Holder("ann_10.0.0.1", "ann")


@pytest.mark.parametrize("field", ["token", "until_ms", "renewed_ms", "acquired_ms", "fence"])
def test_rubbish_in_a_lease_costs_that_bucket_its_holder_at_most(
    own_redis: EmbeddedRedis, field: str
) -> None:
    client = redis.Redis.from_url(own_redis.url)
    keys = RedisKeys("p")
    leases = RedisLeases(RedisConnection(own_redis.url), keys, [ONE, TWO], duration_s=DURATION_S)
    leases.round(ANN, {})
    elapse(client, "p", DURATION_S + 1)
    held = leases.acquire(ANN, [ONE, TWO], FencingToken(0))
    if field == "fence":
        client.set(keys.fence(ONE), "rubbish")
    else:
        client.hset(keys.lease(ONE), field, "rubbish")
    assert leases.view().leases[TWO].holder == ANN
    assert TWO in leases.round(ANN, held).renewed
    # Taken anew, it has a number everywhere.
    taken = leases.acquire(ANN, [ONE], held[ONE])
    assert taken[ONE] > held[ONE]
    assert leases.round(ANN, taken).renewed == {ONE}
    client.close()
