"""What every `LeaseStore` does: one holder, tokens that only grow, nothing acquired too early."""

from __future__ import annotations

import pytest

from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.errors import ConfigurationError
from app.ports.store import BucketName, FencingToken, Holder
from tests.contract.conftest import Backend
from tests.fakes.leases import MemoryLeases

DURATION_S = 60.0
NAMES = [BucketName(name) for name in bucket_names(3)]
ONE, TWO, THREE = NAMES
ANN = Holder("ann_10.0.0.1", "agent-ann")
BOB = Holder("bob_10.0.0.2", "agent-bob")
NEVER = FencingToken(0)

Store = RedisLeases | MemoryLeases
"""Or, in `test_kubernetes_lease_store`, what does the same with Lease objects."""


@pytest.fixture
def fresh(backend: Backend) -> Store:
    if backend.connection is None:
        assert backend.clock is not None
        return MemoryLeases(backend.clock, NAMES, duration_s=DURATION_S)
    return RedisLeases(backend.connection, backend.keys, NAMES, duration_s=DURATION_S)


@pytest.fixture
def store(fresh: Store, backend: Backend) -> Store:
    """A store whose epoch is older than a lease, with nobody in it."""
    fresh.round(ANN, {})
    fresh.leave(ANN)
    backend.elapse(DURATION_S + 1)
    return fresh


def lose_everything(store: Store, backend: Backend) -> None:
    if not isinstance(store, RedisLeases):
        store.lose_everything()
        return
    assert backend.connection is not None
    keys = [key for name in NAMES for key in (backend.keys.lease(name), backend.keys.fence(name))]
    backend.connection.execute("DEL", backend.keys.epoch(), backend.keys.heartbeats(), *keys)


def test_a_free_bucket_is_taken_once(store: Store) -> None:
    taken = store.acquire(ANN, [ONE, TWO], NEVER)
    assert set(taken) == {ONE, TWO}
    assert store.acquire(BOB, [ONE, TWO, THREE], NEVER).keys() == {THREE}


def test_a_round_shows_every_bucket_with_holder_and_token(store: Store) -> None:
    token = store.acquire(ANN, [ONE], NEVER)[ONE]
    view = store.round(BOB, {})
    assert set(view.leases) == set(NAMES)
    row = view.leases[ONE]
    assert (row.bucket, row.holder, row.token) == (ONE, ANN, token)
    assert 0 < row.remaining_ms <= DURATION_S * 1000
    assert (view.leases[TWO].holder, view.leases[TWO].token, view.leases[TWO].remaining_ms) == (None, 0, 0)
    assert view.renewed == frozenset()


def test_a_reader_sees_the_same_and_leaves_no_heartbeat(store: Store) -> None:
    token = store.acquire(ANN, [ONE], NEVER)[ONE]
    store.round(ANN, {})
    view = store.view()
    assert (view.leases[ONE].holder, view.leases[ONE].token) == (ANN, token)
    assert view.leases[TWO].holder is None
    assert view.live_agents == (ANN.agent_id,)


def test_a_renewal_begins_the_lease_anew(store: Store, backend: Backend) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S - 10)
    assert store.round(ANN, taken).renewed == {ONE}
    backend.elapse(DURATION_S - 10)
    assert store.round(ANN, taken).renewed == {ONE}
    assert store.acquire(BOB, [ONE], NEVER) == {}


def test_an_expired_lease_is_free_and_not_renewed(store: Store, backend: Backend) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S + 1)
    view = store.round(ANN, taken)
    assert view.renewed == frozenset()
    assert view.leases[ONE].holder is None
    assert view.leases[ONE].token == taken[ONE]
    assert store.acquire(BOB, [ONE], NEVER)[ONE] > taken[ONE]


def test_an_old_token_renews_nothing(store: Store, backend: Backend) -> None:
    old = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S + 1)
    store.acquire(BOB, [ONE], NEVER)
    assert store.round(ANN, old).renewed == frozenset()
    assert store.view().leases[ONE].holder == BOB


def test_a_released_bucket_is_free_at_once_and_its_token_stays(store: Store) -> None:
    taken = store.acquire(ANN, [ONE, TWO], NEVER)
    store.release(ANN, {ONE: taken[ONE]})
    assert store.view().leases[ONE].token == taken[ONE]
    assert store.acquire(BOB, [ONE, TWO], NEVER)[ONE] > taken[ONE]
    assert store.view().leases[TWO].holder == ANN


def test_only_the_holder_releases_and_only_with_its_token(store: Store) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    store.release(BOB, taken)
    store.release(ANN, {ONE: FencingToken(taken[ONE] - 1)})
    assert store.view().leases[ONE].holder == ANN
    store.release(ANN, {})


def test_tokens_grow_past_redis_time_and_what_the_caller_has_seen(store: Store, backend: Backend) -> None:
    first = store.acquire(ANN, [ONE], NEVER)[ONE]
    assert first > backend.now_ms() - DURATION_S * 1000
    far = FencingToken(first + 10**12)
    assert store.acquire(ANN, [TWO], far)[TWO] == far + 1
    store.release(ANN, {TWO: FencingToken(far + 1)})
    assert store.acquire(BOB, [TWO], NEVER)[TWO] == far + 2


def test_what_the_holder_has_lost_sight_of_it_may_take_again_under_a_new_token(store: Store) -> None:
    first = store.acquire(ANN, [ONE], NEVER)[ONE]
    assert store.acquire(ANN, [ONE], NEVER)[ONE] > first


def test_an_agent_is_live_until_a_lease_duration_after_its_last_round(store: Store, backend: Backend) -> None:
    store.round(ANN, {})
    backend.elapse(DURATION_S - 10)
    assert set(store.round(BOB, {}).live_agents) == {ANN.agent_id, BOB.agent_id}
    backend.elapse(11)
    assert store.view().live_agents == (BOB.agent_id,)
    assert store.round(BOB, {}).live_agents == (BOB.agent_id,)


def test_one_that_leaves_counts_no_more(store: Store) -> None:
    store.round(ANN, {})
    store.round(BOB, {})
    store.leave(ANN)
    assert store.view().live_agents == (BOB.agent_id,)


def test_a_clock_that_went_back_does_not_make_a_lease_longer(store: Store, backend: Backend) -> None:
    store.acquire(ANN, [ONE], NEVER)
    store.round(ANN, {})
    backend.elapse(-3600)
    store.round(BOB, {})
    backend.elapse(DURATION_S + 1)
    view = store.round(BOB, {})
    assert view.leases[ONE].holder is None
    assert view.live_agents == (BOB.agent_id,)


def test_nobody_acquires_in_a_new_epoch_for_a_lease_duration(fresh: Store, backend: Backend) -> None:
    assert fresh.acquire(ANN, [ONE], NEVER) == {}
    fresh.round(ANN, {})
    assert fresh.acquire(ANN, [ONE], NEVER) == {}
    backend.elapse(DURATION_S - 10)
    assert fresh.acquire(ANN, [ONE], NEVER) == {}
    backend.elapse(11)
    assert fresh.acquire(ANN, [ONE], NEVER).keys() == {ONE}


def test_a_holder_asserts_its_lost_lease_with_its_own_token(store: Store, backend: Backend) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    lose_everything(store, backend)
    assert store.acquire(BOB, [ONE], NEVER) == {}
    assert store.round(ANN, taken).renewed == {ONE}
    row = store.view().leases[ONE]
    assert (row.holder, row.token) == (ANN, taken[ONE])
    backend.elapse(DURATION_S - 1)
    store.round(ANN, taken)
    backend.elapse(2)
    assert store.acquire(BOB, [ONE], NEVER) == {}


def test_of_two_that_assert_the_higher_token_wins(store: Store, backend: Backend) -> None:
    older = store.acquire(ANN, [ONE], NEVER)
    store.release(ANN, older)
    newer = store.acquire(BOB, [ONE], NEVER)
    lose_everything(store, backend)
    assert store.round(ANN, older).renewed == {ONE}
    assert store.round(BOB, newer).renewed == {ONE}
    assert store.round(ANN, older).renewed == frozenset()
    assert store.view().leases[ONE].holder == BOB


def test_a_token_after_a_loss_is_higher_than_the_one_before(store: Store, backend: Backend) -> None:
    before = store.acquire(ANN, [ONE], NEVER)[ONE]
    lose_everything(store, backend)
    store.round(BOB, {})
    backend.elapse(DURATION_S + 1)
    assert store.acquire(BOB, [ONE], FencingToken(before))[ONE] > before


def test_the_number_of_buckets_is_stored_once_and_another_one_is_refused(fresh: Store) -> None:
    assert fresh.stored_total() is None
    fresh.check_total(3)
    fresh.check_total(3)
    with pytest.raises(ConfigurationError, match="set it to that, or stop all workers"):
        fresh.check_total(4)
    assert fresh.stored_total() == 3


def set_total(store: Store, backend: Backend, text: str) -> None:
    if not isinstance(store, RedisLeases):
        store.total = text
        return
    assert backend.connection is not None
    backend.connection.execute("SET", backend.keys.total(), text)


def test_a_round_writes_the_number_of_buckets_back_where_it_was_lost(store: Store, backend: Backend) -> None:
    lose_everything(store, backend)
    store.round(ANN, {})
    assert store.stored_total() == 3


@pytest.mark.parametrize(
    ("in_force", "told"), [("4", "has 4 in Redis"), ("3>4", "from 3 to 4: run `vmscaler buckets resize 4`")]
)
def test_a_round_with_another_number_of_buckets_does_nothing_and_says_so(
    store: Store, backend: Backend, in_force: str, told: str
) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S - 10)
    set_total(store, backend, in_force)
    with pytest.raises(ConfigurationError, match=told):
        store.round(ANN, taken)
    assert store.acquire(BOB, [TWO], NEVER) == {}
    assert store.view().live_agents == ()
    backend.elapse(11)
    assert store.view().leases[ONE].holder is None


def test_no_number_of_buckets_is_told_while_it_is_being_changed(store: Store, backend: Backend) -> None:
    set_total(store, backend, "16>32")
    with pytest.raises(ConfigurationError, match="resize 32"):
        store.stored_total()


def test_a_lease_has_its_age_until_it_is_free(store: Store, backend: Backend) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S - 10)
    view = store.round(ANN, taken)
    assert view.redis_ms - view.leases[ONE].acquired_ms >= (DURATION_S - 10) * 1000
    assert store.view().leases[ONE].acquired_ms == view.leases[ONE].acquired_ms
    store.release(ANN, taken)
    assert store.view().leases[ONE].acquired_ms == store.round(ANN, {}).leases[ONE].acquired_ms == 0


def test_everyone_sees_how_long_nobody_may_acquire(fresh: Store, backend: Backend) -> None:
    assert fresh.view().silence_ms == DURATION_S * 1000
    assert fresh.round(ANN, {}).silence_ms == DURATION_S * 1000
    backend.elapse(DURATION_S - 10)
    assert 0 < fresh.round(ANN, {}).silence_ms <= 10_000
    assert 0 < fresh.view().silence_ms <= 10_000
    backend.elapse(11)
    assert fresh.round(ANN, {}).silence_ms == fresh.view().silence_ms == 0


def test_a_restarted_process_of_the_same_name_is_another_holder(store: Store, backend: Backend) -> None:
    before = Holder("ann_fe80::1", "agent-1")
    after = Holder("ann_fe80::1", "agent-2")
    taken = store.acquire(before, [ONE], NEVER)
    assert before != after
    assert store.round(after, taken).renewed == frozenset()
    assert store.acquire(after, [ONE], NEVER) == {}
    store.release(after, taken)
    assert store.view().leases[ONE].holder == before
    backend.elapse(DURATION_S + 1)
    assert store.acquire(after, [ONE], NEVER)[ONE] > taken[ONE]
