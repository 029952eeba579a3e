"""Each contract runs against the fake and against the real thing: Redis; an API server if there is one."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from tests.fakes.clock import FakeClock
from tests.fakes.kube_server import KubeServer
from tests.fakes.redis_time import elapse
from tests.kube_subject import DoubleSubject, RealSubject, Subject
from tests.real_apiserver import ASSETS, RealApiServer


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


@pytest.fixture(scope="session")
def real_apiserver() -> Iterator[RealApiServer]:
    """One for the whole session."""
    with tempfile.TemporaryDirectory(prefix="vmscaler-") as directory:
        server = RealApiServer(Path(ASSETS), Path(directory))
        try:
            yield server
        finally:
            server.close()


@pytest.fixture(
    params=[
        "double",
        pytest.param("real", marks=pytest.mark.skipif(not ASSETS, reason="KUBEBUILDER_ASSETS is not set")),
    ]
)
def kube(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """An API server."""
    mark = uuid.uuid4().hex[:8]
    if request.param == "real":
        real = RealSubject(request.getfixturevalue("real_apiserver"), mark)
        yield real
        real.close()
        return
    server = KubeServer()
    yield DoubleSubject(server, mark)
    server.close()
