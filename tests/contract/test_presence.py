"""What every `Presence` does: heartbeats, fences that only grow, and the number of buckets."""

from __future__ import annotations

import pytest

from app.adapters.redis_presence import RedisPresence
from app.cluster.ring import bucket_names
from app.errors import ConfigurationError
from app.ports.store import BucketName, FencingToken, Holder
from tests.contract.conftest import Backend
from tests.fakes.presence import MemoryPresence

DURATION_S = 60.0
NAMES = [BucketName(name) for name in bucket_names(3)]
ONE, TWO, THREE = NAMES
ANN, BOB = Holder("ann_10.0.0.1", "agent-ann"), Holder("bob_10.0.0.2", "agent-bob")


@pytest.fixture
def presence(backend: Backend) -> RedisPresence | MemoryPresence:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryPresence(backend.clock, NAMES, duration_s=DURATION_S)
    return RedisPresence(backend.connection, backend.keys, NAMES, duration_s=DURATION_S)


def test_a_heartbeat_counts_for_a_lease_duration(
    presence: RedisPresence | MemoryPresence, backend: Backend
) -> None:
    assert presence.beat(ANN, {}).live_agents == (ANN.agent_id,)
    backend.elapse(DURATION_S - 10)
    assert set(presence.beat(BOB, {}).live_agents) == {ANN.agent_id, BOB.agent_id}
    backend.elapse(11)
    assert presence.look().live_agents == (BOB.agent_id,)
    presence.leave(BOB)
    assert presence.look().live_agents == ()


def test_fences_only_grow(presence: RedisPresence | MemoryPresence) -> None:
    assert presence.beat(ANN, {}).fences == dict.fromkeys(NAMES, 0)
    assert presence.beat(ANN, {ONE: FencingToken(7), TWO: FencingToken(2**52)}).fences[ONE] == 7
    assert presence.beat(BOB, {ONE: FencingToken(6)}).fences[ONE] == 7
    assert presence.look().fences == {ONE: 7, TWO: 2**52, THREE: 0}


def test_the_time_is_redis_own(presence: RedisPresence | MemoryPresence, backend: Backend) -> None:
    assert abs(presence.beat(ANN, {}).redis_ms - backend.now_ms()) < 30_000
    assert abs(presence.look().redis_ms - backend.now_ms()) < 30_000


@pytest.mark.parametrize("in_force", ["4", "3>4"])
def test_with_another_number_of_buckets_there_is_no_heartbeat(
    presence: RedisPresence | MemoryPresence, backend: Backend, in_force: str
) -> None:
    presence.check_total(3)
    assert presence.stored_total() == 3
    if isinstance(presence, MemoryPresence):
        presence.total = in_force
    else:
        assert backend.connection is not None
        backend.connection.execute("SET", backend.keys.total(), in_force)
    with pytest.raises(ConfigurationError):
        presence.beat(ANN, {ONE: FencingToken(7)})
    assert presence.look().live_agents == ()
    assert presence.look().fences[ONE] == 0
