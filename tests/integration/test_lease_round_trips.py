"""What renewing costs: one round trip a worker and look, counted by Redis itself and on the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import redis

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.lease import LeaseTimes
from app.cluster.ring import bucket_names
from tests.fakes.clock import FakeClock
from tests.fakes.owners import Owner
from tests.fakes.redis_time import elapse

TOTAL = 64
TIMES = LeaseTimes(duration_s=600, renew_every_s=2, give_up_after_s=400)


@pytest.fixture
def client(own_redis: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_redis.url) as client:
        yield client


def commands_seen(client: redis.Redis) -> Counter[str]:
    """Calls of each command since the server's start; those that a script makes count as well."""
    stats = client.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): int(found["calls"]) for name, found in stats.items()})


def test_renewing_64_leases_and_looking_for_free_ones_is_one_round_trip(
    own_redis: EmbeddedRedis, client: redis.Redis
) -> None:
    connection = RedisConnection(own_redis.url)
    leases = RedisLeases(connection, RedisKeys("p"), bucket_names(TOTAL), duration_s=TIMES.duration_s)
    clock = FakeClock(wall_ms=SystemClock().wall_ms())
    owner = Owner("ann", leases, clock, TOTAL, TIMES)
    owner.round()
    elapse(client, "p", TIMES.duration_s + 1)
    owner.round()
    assert len(owner.ownership.held()) == TOTAL
    before, sent_before = commands_seen(client), client.info("stats")["total_net_input_bytes"]
    periods = 10
    for _ in range(periods):
        clock.advance(TIMES.renew_every_s)
        owner.round()
    made = commands_seen(client) - before
    assert made["evalsha"] == periods
    assert made["time"] == periods  # once in each script: nothing else was called by us
    assert not {"eval", "multi", "exec", "set", "setex", "hgetall"} & made.keys()
    assert made["hset"] >= periods * TOTAL  # each of them renewed every lease
    sent = int(client.info("stats")["total_net_input_bytes"]) - int(sent_before)
    assert sent / periods < 20_000
    assert len(owner.ownership.held()) == TOTAL
    connection.close()
