"""Each contract runs against the fake and against a real Redis, with the same way to let time pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import redis

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from tests.fakes.clock import FakeClock
from tests.fakes.redis_time import elapse


@dataclass(frozen=True)
class Backend:
    """Where a store under test lives: a fake's clock, or a connection to Redis.

    Attributes:
        elapse: lets so many seconds pass by Redis' clock; negative: the clock goes back.
        now_ms: Redis' clock.
    """

    elapse: Callable[[float], None]
    now_ms: Callable[[], int]
    clock: FakeClock | None = None
    connection: RedisConnection | None = None
    keys: RedisKeys = field(default_factory=RedisKeys)


@pytest.fixture(params=["memory", "redis"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        clock = FakeClock()
        yield Backend(elapse=clock.step_wall, now_ms=clock.wall_ms, clock=clock)
        return
    url, prefix = request.getfixturevalue("redis_url"), request.getfixturevalue("redis_prefix")
    client, connection = redis.Redis.from_url(url), RedisConnection(url)

    def now_ms() -> int:
        seconds, micros = client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    yield Backend(
        elapse=lambda seconds: elapse(client, prefix, seconds),
        now_ms=now_ms,
        connection=connection,
        keys=RedisKeys(prefix),
    )
    connection.close()
    client.close()
