"""The Redis of the interrupted model: in memory, or a real one whose stored times are made older."""

from __future__ import annotations

import time
from typing import Any

import redis

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.adapters.redis_state import RedisState
from app.cluster.lease import LeaseTimes
from app.ports.runtime import Monotonic
from app.ports.store import BucketName
from tests.fakes.clock import FakeClock
from tests.fakes.leases import MemoryLeases
from tests.fakes.redis_time import elapse
from tests.fakes.states import MemoryState
from tests.model.interrupted_world import NAMES


class MemoryRedis:
    """A `ModelRedis` of the stores that pass the contract suite."""

    def __init__(self, times: LeaseTimes) -> None:
        self.clock = FakeClock()
        fences: dict[BucketName, int] = {}
        self.leases = MemoryLeases(self.clock, NAMES, duration_s=times.duration_s, fences=fences)
        self.states = MemoryState(self.clock, fences=fences)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def lose_everything(self) -> None:
        self.leases.lose_everything()
        self.states.replace_records({})

    def begin_epoch(self) -> None:
        self.leases.begin_epoch()

    def keep(self) -> object:
        return self.leases.keep(), {bucket: dict(self.states.load(bucket)) for bucket in NAMES}

    def fail_over(self, kept: Any) -> None:
        leases, records = kept
        self.leases.fail_over(leases)
        self.states.replace_records(records)


class RunningClock(FakeClock):
    """What is added by hand, and the time that really passes."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = time.monotonic()

    def monotonic(self) -> Monotonic:
        return Monotonic(super().monotonic() + time.monotonic() - self._begun)


class RealRedis:
    """A `ModelRedis` with the Lua scripts on a real server, all keys under a prefix of its own."""

    def __init__(self, url: str, prefix: str, times: LeaseTimes) -> None:
        self.clock = RunningClock()
        self._client, self._connection = redis.Redis.from_url(url), RedisConnection(url)
        self._keys = RedisKeys(prefix)
        self.leases = RedisLeases(self._connection, self._keys, NAMES, duration_s=times.duration_s)
        self.states = RedisState(self._connection, self._keys)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        elapse(self._client, self._keys.prefix, seconds)

    def lose_everything(self) -> None:
        names = self._names()
        if names:
            self._client.delete(*names)

    def begin_epoch(self) -> None:
        self._client.hset(self._keys.epoch(), "run", "of-another-server")

    def keep(self) -> object:
        return self.clock.monotonic(), {name: self._client.dump(name) for name in self._names()}

    def fail_over(self, kept: Any) -> None:
        kept_at, values = kept
        self.lose_everything()
        for name, value in values.items():
            self._client.restore(name, 0, value)
        elapse(self._client, self._keys.prefix, self.clock.monotonic() - kept_at)
        self.begin_epoch()

    def close(self) -> None:
        """No key is left behind."""
        self.lose_everything()
        self._client.close()
        self._connection.close()

    def _names(self) -> list[bytes]:
        return list(self._client.scan_iter(match=f"{self._keys.prefix}:*"))
