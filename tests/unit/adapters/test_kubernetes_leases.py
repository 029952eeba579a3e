"""What is special about leases in an API server: whose clock counts, which tokens, what others' writes do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from app.adapters.kubernetes_leases import KubernetesLeases
from app.cluster.ring import bucket_names
from app.errors import LeasesUnavailable, PeerUnreachable
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow
from app.protocols.bucket_lease import BucketLease, new_lease, with_lease
from tests.fakes.clock import FakeClock
from tests.fakes.lease_objects import LeaseServer, MemoryLeaseObjects, lost_answer
from tests.fakes.presence import MemoryPresence

D = 15.0
NAMES = [BucketName(name) for name in bucket_names(3)]
ONE, TWO, THREE = NAMES
ANN, BOB = Holder("ann_10.0.0.1", "agent-ann"), Holder("bob_10.0.0.2", "agent-bob")
NEVER = FencingToken(0)
LONG_AGO = "2001-01-01T00:00:00.000000Z"


class Cluster:
    """An API server, Redis, and workers that come when they are asked for."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = LeaseServer()
        self.presence = MemoryPresence(self.clock, NAMES, duration_s=D)
        self.objects: dict[str, MemoryLeaseObjects] = {}

    def put(self, bucket: BucketName, **fields: Any) -> None:
        """An object that somebody wrote; without fields it is free."""
        self.server.put(bucket, with_lease(new_lease(bucket, "ns"), BucketLease(**fields), "vmscaler"))

    def worker(self, name: str) -> KubernetesLeases:
        objects = self.objects[name] = MemoryLeaseObjects(self.server)
        return KubernetesLeases(
            objects, self.presence, ("ns", "vmscaler"), NAMES, duration_s=D, monotonic=self.clock.monotonic
        )

    def spec(self, bucket: BucketName) -> dict[str, Any]:
        return dict(self.server.items[bucket]["spec"])


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    for name in NAMES:
        found.put(name)
    return found


def test_what_was_released_is_taken_at_once_and_the_object_says_who_has_it(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    (token,) = ann.acquire(ANN, [ONE], NEVER).values()
    spec, metadata = cluster.spec(ONE), cluster.server.items[ONE]["metadata"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("ann_10.0.0.1", 15)
    assert spec["leaseTransitions"] == 1
    assert metadata["annotations"] == {"vmscaler/agent": "agent-ann", "vmscaler/token": str(token)}
    assert cluster.presence.fences[ONE] == token


@pytest.mark.parametrize("renewed", [LONG_AGO, "2999-01-01T00:00:00.000000Z", ""])
def test_who_sees_a_lease_for_the_first_time_waits_for_a_whole_duration_whatever_its_times_say(
    cluster: Cluster, renewed: str
) -> None:
    cluster.put(ONE, identity="x_10.0.0.9", agent_id="x", token=5, duration_s=15, renewed=renewed)
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    cluster.clock.advance(D - 0.1)
    assert ann.round(ANN, {}).leases[ONE].holder is not None
    assert ann.acquire(ANN, [ONE], NEVER) == {}
    cluster.clock.advance(0.2)
    assert ann.round(ANN, {}).leases[ONE].holder is None
    assert ann.acquire(ANN, [ONE], NEVER)[ONE] > 5


def test_a_wall_clock_that_is_set_ends_no_lease(cluster: Cluster) -> None:
    bob, ann = cluster.worker("bob"), cluster.worker("ann")
    bob.round(BOB, {})
    bob.acquire(BOB, [ONE], NEVER)
    ann.round(ANN, {})
    cluster.clock.step_wall(3600)
    ann.round(ANN, {})
    assert ann.acquire(ANN, [ONE], NEVER) == {}


def test_a_lease_that_says_that_it_lasts_longer_is_believed(cluster: Cluster) -> None:
    cluster.put(ONE, identity="x_10.0.0.9", agent_id="x", token=5, duration_s=40, renewed=LONG_AGO)
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    cluster.clock.advance(39)
    assert ann.acquire(ANN, [ONE], NEVER) == {}
    cluster.clock.advance(2)
    assert ann.acquire(ANN, [ONE], NEVER).keys() == {ONE}


def test_a_renewal_that_the_watch_has_not_told_refuses_the_taking(cluster: Cluster) -> None:
    bob, ann = cluster.worker("bob"), cluster.worker("ann")
    bob.round(BOB, {})
    held = bob.acquire(BOB, [ONE], NEVER)
    ann.round(ANN, {})
    cluster.objects["ann"].is_deaf = True
    for _ in range(8):
        cluster.clock.advance(2)
        assert bob.round(BOB, held).renewed == {ONE}
        ann.round(ANN, {})
    assert ann.round(ANN, {}).leases[ONE].holder is None, "it believes so"
    assert ann.acquire(ANN, [ONE], NEVER) == {}
    assert cluster.spec(ONE)["holderIdentity"] == BOB.identity


def test_a_token_is_above_the_fence_the_transitions_and_what_the_caller_has_seen(cluster: Cluster) -> None:
    far = cluster.clock.wall_ms() + 10**9
    cluster.presence.fences[ONE] = far
    cluster.put(TWO, token=far + 7)
    cluster.put(THREE, transitions=2**31 - 1)
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    taken = ann.acquire(ANN, NAMES, NEVER)
    assert (taken[ONE], taken[TWO]) == (far + 1, far + 8)
    assert taken[THREE] > 2**31
    assert cluster.spec(THREE)["leaseTransitions"] == 2**31 - 1, "the API server takes no more"
    ann.release(ANN, taken)
    assert ann.acquire(ANN, [THREE], FencingToken(far + 50))[THREE] == far + 51


def test_steady_there_is_one_request_for_each_bucket_and_renewal(cluster: Cluster) -> None:
    ann, bob = cluster.worker("ann"), cluster.worker("bob")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE, TWO], NEVER)
    cluster.objects["ann"].requests.clear()
    for _ in range(5):
        cluster.clock.advance(2)
        assert ann.round(ANN, held).renewed == {ONE, TWO}
        ann.round(ANN, {})
        bob.round(BOB, {})
    assert len(cluster.objects["ann"].requests) == 10
    assert cluster.objects["bob"].requests == []


def test_a_renewal_is_another_time_in_the_object_though_redis_clock_stands_still(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE], NEVER)
    seen = {cluster.spec(ONE)["renewTime"]}
    for _ in range(2):
        ann.round(ANN, held)
        before, now = seen, cluster.spec(ONE)["renewTime"]
        seen = {now}
        assert now not in before


def test_one_renewal_that_has_no_answer_costs_the_others_nothing(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE, TWO], NEVER)

    def lose_one(bucket: BucketName) -> None:
        if bucket == ONE:
            lost_answer(bucket)

    cluster.objects["ann"].after_write = lose_one
    view = ann.round(ANN, held)
    assert (view.renewed, view.unanswered) == ({TWO}, {ONE})
    cluster.objects["ann"].after_write = lambda bucket: None
    assert ann.round(ANN, held).renewed == {ONE, TWO}


def test_without_the_api_server_every_round_says_so_until_it_is_back(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE], NEVER)
    cluster.server.is_away = True
    for renew in (held, {}, {}):
        with pytest.raises(LeasesUnavailable, match="no connection"):
            ann.round(ANN, renew)
    cluster.server.is_away = False
    assert ann.round(ANN, {}).renewed == frozenset()
    assert ann.round(ANN, held).renewed == {ONE}


def test_before_anything_was_listed_nothing_is_known_and_nothing_taken(cluster: Cluster) -> None:
    cluster.server.is_away = True
    ann = cluster.worker("ann")
    with pytest.raises(LeasesUnavailable):
        ann.round(ANN, {})
    assert ann.acquire(ANN, NAMES, NEVER) == {}


def test_an_acquisition_that_nobody_answers_is_an_outage_and_one_that_others_won_is_not(
    cluster: Cluster,
) -> None:
    ann, bob = cluster.worker("ann"), cluster.worker("bob")
    ann.round(ANN, {})
    bob.round(BOB, {})
    bob.acquire(BOB, [ONE], NEVER)
    assert ann.acquire(ANN, [ONE], NEVER) == {}

    def refuse(bucket: BucketName) -> None:
        raise PeerUnreachable("Kubernetes API server", "no connection")

    cluster.objects["ann"].before_write = refuse
    with pytest.raises(LeasesUnavailable):
        ann.acquire(ANN, [TWO], NEVER)


def test_an_object_that_was_deleted_is_asserted_by_its_holder_and_waited_for_by_others(
    cluster: Cluster,
) -> None:
    ann, bob = cluster.worker("ann"), cluster.worker("bob")
    ann.round(ANN, {})
    bob.round(BOB, {})
    held = ann.acquire(ANN, [ONE], NEVER)
    cluster.server.delete(ONE)
    assert 0 < bob.round(BOB, {}).silence_ms <= D * 1000
    assert bob.acquire(BOB, [ONE], NEVER) == {}
    assert ann.round(ANN, held).renewed == {ONE}
    assert cluster.server.items[ONE]["metadata"]["annotations"]["vmscaler/token"] == str(held[ONE])
    cluster.server.delete(ONE)
    bob.round(BOB, {})
    cluster.clock.advance(D + 1)
    assert bob.acquire(BOB, [ONE], NEVER)[ONE] > held[ONE]


def test_fields_and_labels_of_others_stay_and_cost_one_more_look(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE], NEVER)
    cluster.objects["ann"].is_deaf = True
    item = copy.deepcopy(cluster.server.items[ONE])
    item["metadata"]["labels"]["team"] = "db"
    item["spec"]["strategy"] = "OldestEmulationVersion"
    cluster.server.put(ONE, item)
    assert ann.round(ANN, held).renewed == {ONE}
    ann.release(ANN, held)
    assert cluster.server.items[ONE]["metadata"]["labels"]["team"] == "db"
    assert cluster.spec(ONE)["strategy"] == "OldestEmulationVersion"
    assert cluster.spec(ONE)["holderIdentity"] == ""


def test_a_lease_that_cannot_be_read_is_named_and_neither_taken_nor_renewed(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE, TWO], NEVER)
    item = copy.deepcopy(cluster.server.items[ONE])
    item["spec"]["leaseTransitions"] = -4
    cluster.server.put(ONE, item)
    view = ann.round(ANN, held)
    assert view.renewed == {TWO}
    assert ann.problems() == [
        f"Lease ns/{ONE}: .spec.leaseTransitions: must be a whole number from 0 to 2147483647; "
        "repair it or delete it"
    ]
    cluster.clock.advance(10 * D)
    assert ann.acquire(ANN, [ONE], NEVER) == {}
    assert view.leases[ONE].holder is not None, "nobody is to try it"


def test_a_bucket_that_a_worker_with_leases_in_redis_holds_is_left_to_it(cluster: Cluster) -> None:
    row = LeaseRow(ONE, BOB, FencingToken(9), 5000)
    cluster.presence.in_redis[ONE] = row
    ann = cluster.worker("ann")
    assert ann.round(ANN, {}).leases[ONE] == row
    assert ann.acquire(ANN, [ONE, TWO], NEVER).keys() == {TWO}


def test_a_lease_of_which_redis_knows_a_newer_token_is_not_renewed(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE, TWO], NEVER)
    cluster.presence.fences[ONE] = held[ONE] + 1
    assert ann.round(ANN, held).renewed == {TWO}


def test_fences_that_redis_has_lost_are_raised_again_by_the_next_renewal(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})
    held = ann.acquire(ANN, [ONE], NEVER)
    cluster.presence.lose_everything()
    ann.round(ANN, held)
    assert cluster.presence.fences[ONE] == held[ONE]


def test_what_redis_refuses_after_it_was_taken_is_let_go_again(cluster: Cluster) -> None:
    ann = cluster.worker("ann")
    ann.round(ANN, {})

    def newer(bucket: BucketName) -> None:
        cluster.presence.fences[bucket] = cluster.clock.wall_ms() + 10**6

    cluster.objects["ann"].after_write = newer
    assert ann.acquire(ANN, [ONE], NEVER) == {}
    assert cluster.spec(ONE)["holderIdentity"] == ""


def test_of_another_program_that_has_ended_the_lease_is_taken_after_its_time(cluster: Cluster) -> None:
    item = new_lease(ONE, "ns")
    item["spec"] = {"holderIdentity": "autoscaler-7_10.0.0.3", "leaseTransitions": 40, "renewTime": LONG_AGO}
    cluster.server.put(ONE, item)
    ann = cluster.worker("ann")
    holder = ann.round(ANN, {}).leases[ONE].holder
    assert holder is not None
    assert holder.identity == "autoscaler-7_10.0.0.3"
    cluster.clock.advance(D + 1)
    ann.round(ANN, {})
    assert ann.acquire(ANN, [ONE], NEVER)[ONE] > 40
    assert cluster.spec(ONE)["leaseTransitions"] == 41
