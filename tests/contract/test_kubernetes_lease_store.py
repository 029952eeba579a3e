"""The contract of `test_lease_store` for leases in an API server, and what is special about them.

Left out is what is said of Redis alone: of two that assert a lost lease an API server takes the first; and
acquiring leaves a heartbeat here, so that `buckets resize` needs no look at the API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
from app.adapters.kubernetes_lease_reader import KubernetesLeaseReader
from app.adapters.kubernetes_leases import KubernetesLeases
from app.errors import ConfigurationError
from app.ports.store import Holder
from tests.contract.conftest import Backend
from tests.contract.test_lease_store import (  # noqa: F401 - pytest collects them
    ANN,
    BOB,
    DURATION_S,
    NAMES,
    NEVER,
    ONE,
    TWO,
    store,
    test_a_clock_that_went_back_does_not_make_a_lease_longer,
    test_a_free_bucket_is_taken_once,
    test_a_holder_asserts_its_lost_lease_with_its_own_token,
    test_a_lease_has_its_age_until_it_is_free,
    test_a_reader_sees_the_same_and_leaves_no_heartbeat,
    test_a_released_bucket_is_free_at_once_and_its_token_stays,
    test_a_renewal_begins_the_lease_anew,
    test_a_restarted_process_of_the_same_name_is_another_holder,
    test_a_round_shows_every_bucket_with_holder_and_token,
    test_a_round_writes_the_number_of_buckets_back_where_it_was_lost,
    test_a_token_after_a_loss_is_higher_than_the_one_before,
    test_an_agent_is_live_until_a_lease_duration_after_its_last_round,
    test_an_expired_lease_is_free_and_not_renewed,
    test_an_old_token_renews_nothing,
    test_no_number_of_buckets_is_told_while_it_is_being_changed,
    test_nobody_acquires_in_a_new_epoch_for_a_lease_duration,
    test_one_that_leaves_counts_no_more,
    test_only_the_holder_releases_and_only_with_its_token,
    test_the_number_of_buckets_is_stored_once_and_another_one_is_refused,
    test_tokens_grow_past_redis_time_and_what_the_caller_has_seen,
    test_what_the_holder_has_lost_sight_of_it_may_take_again_under_a_new_token,
)
from tests.fakes.clock import FakeClock
from tests.fakes.kube_server import KubeServer
from tests.fakes.presence import MemoryPresence
from tests.fleet_process import until

NAMESPACE, FLEET = "vmscaler", "vmscaler"


class KubernetesStore:
    """Both sides of the leases on one API server double: the worker's, and the reader's."""

    def __init__(self, server: KubeServer, kubeconfig: str, clock: FakeClock) -> None:
        self._server = server
        self._presence = MemoryPresence(clock, NAMES, duration_s=DURATION_S)
        self._objects = [
            KubernetesLeaseObjects(ApiServer(kubeconfig), NAMESPACE, FLEET, NAMES) for _ in range(2)
        ]
        self._leases = KubernetesLeases(
            self._objects[0],
            self._presence,
            (NAMESPACE, FLEET),
            NAMES,
            duration_s=DURATION_S,
            monotonic=clock.monotonic,
        )
        self._reader = KubernetesLeaseReader(
            self._objects[1], self._presence, NAMES, duration_s=DURATION_S, timeout_s=30
        )
        self.check_total = self._leases.check_total
        self.stored_total = self._reader.stored_total
        self.acquire, self.release, self.leave = (
            self._leases.acquire,
            self._leases.release,
            self._leases.leave,
        )
        self.view, self.round = self._reader.view, self._leases.round

    @property
    def total(self) -> str | None:
        return self._presence.total

    @total.setter
    def total(self, text: str) -> None:
        self._presence.total = text

    def lose_everything(self) -> None:
        """Redis is emptied, and somebody deletes all the objects."""
        self._presence.lose_everything()
        for key in [key for key in self._server.store.objects if key[0] == "leases"]:
            self._server.store.delete(*key)
        until(self._is_seen_to_be_gone, "the watch has told of it")
        self._presence.lose_everything()

    def _is_seen_to_be_gone(self) -> bool:
        return all(
            row.token == 0 for row in self._leases.round(Holder("x_10.0.0.9", "x"), {}).leases.values()
        )

    def close(self) -> None:
        for objects in self._objects:
            objects.close()


@pytest.fixture
def backend() -> Backend:
    clock = FakeClock()

    def elapse(seconds: float) -> None:
        if seconds > 0:
            clock.advance(seconds)
        else:
            clock.step_wall(seconds)

    return Backend(elapse=elapse, now_ms=clock.wall_ms, clock=clock)


@pytest.fixture
def fresh(backend: Backend, tmp_path: Path) -> Iterator[KubernetesStore]:
    server = KubeServer()
    assert backend.clock is not None
    found = KubernetesStore(server, server.kubeconfig(str(tmp_path / "kubeconfig")), backend.clock)
    try:
        yield found
    finally:
        found.close()
        server.close()


@pytest.mark.parametrize("in_force", ["4", "3>4"])
def test_with_another_number_of_buckets_nothing_is_renewed_or_taken(
    store: KubernetesStore,  # noqa: F811
    backend: Backend,
    in_force: str,
) -> None:
    taken = store.acquire(ANN, [ONE], NEVER)
    backend.elapse(DURATION_S - 10)
    store.total = in_force
    with pytest.raises(ConfigurationError, match="resize"):
        store.round(ANN, taken)
    assert store.acquire(BOB, [TWO], NEVER) == {}
    assert BOB.agent_id not in store.view().live_agents
    backend.elapse(11)
    assert store.view().leases[ONE].holder is None
