"""What every `DrainStore` does, and that the leases' rounds show it."""

from __future__ import annotations

import pytest

from app.adapters.redis_drains import RedisDrains
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.ports.drain import DrainNote
from app.ports.store import Holder
from tests.contract.conftest import Backend
from tests.fakes.drains import MemoryDrains
from tests.fakes.leases import MemoryLeases

NAMES = bucket_names(2)
ANN, BOB = Holder("ann_10.0.0.1", "agent-ann"), Holder("bob_10.0.0.2", "agent-bob")
DAY_S = 24 * 3600.0

Leases = RedisLeases | MemoryLeases
Drains = RedisDrains | MemoryDrains


@pytest.fixture
def leases(backend: Backend) -> Leases:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryLeases(backend.clock, NAMES, duration_s=60)
    return RedisLeases(backend.connection, backend.keys, NAMES, duration_s=60)


@pytest.fixture
def drains(backend: Backend, leases: Leases) -> Drains:
    if isinstance(leases, MemoryLeases):
        return MemoryDrains(leases)
    assert backend.connection is not None
    return RedisDrains(backend.connection, backend.keys)


def a_note(backend: Backend) -> DrainNote:
    return DrainNote("op@host", "new \x1b[1m kernel\n", backend.now_ms())


def test_a_drain_is_seen_in_every_round_until_it_is_undone(
    leases: Leases, drains: Drains, backend: Backend
) -> None:
    leases.round(ANN, {})
    note = a_note(backend)
    drains.drain(ANN.agent_id, note)
    view = leases.round(BOB, {})
    assert view.draining == leases.view().draining == {ANN.agent_id}
    assert set(view.live_agents) == {ANN.agent_id, BOB.agent_id}
    assert view.takers == (BOB.agent_id,)
    assert drains.drains() == {ANN.agent_id: note}
    assert drains.undo(ANN.agent_id)
    assert not drains.undo(ANN.agent_id)
    assert leases.round(BOB, {}).draining == frozenset()


def test_drains_of_agents_that_have_ended_are_forgotten_after_a_day(
    leases: Leases, drains: Drains, backend: Backend
) -> None:
    drains.drain("ended", a_note(backend))
    drains.drain(ANN.agent_id, a_note(backend))
    backend.elapse(DAY_S + 1)
    leases.round(ANN, {})
    drains.drain(BOB.agent_id, a_note(backend))
    assert set(drains.drains()) == {ANN.agent_id, BOB.agent_id}
