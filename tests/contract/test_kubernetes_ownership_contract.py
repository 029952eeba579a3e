"""Leases, Services and EndpointSlices of buckets as an API server takes them: the double, and a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_bucket_services import KubernetesBucketServices, ServicePlace
from app.adapters.kubernetes_lease_objects import KubernetesLeaseObjects
from app.adapters.kubernetes_leases import KubernetesLeases
from app.cluster.ring import bucket_names
from app.ports.store import BucketName, FencingToken, Holder
from app.protocols.bucket_lease import object_name
from tests.fakes.clock import FakeClock
from tests.fakes.presence import MemoryPresence
from tests.fleet_process import until
from tests.kube_subject import NAMESPACE, Subject

D = 15.0
NAMES = [BucketName(name) for name in bucket_names(2)]
ONE, TWO = NAMES
ANN, BOB = Holder("ann_10.0.0.1", "agent-ann"), Holder("bob_10.0.0.2", "agent-bob")
NEVER = FencingToken(0)


class Fleet:
    """Two workers of a fleet that no other test has."""

    def __init__(self, kube: Subject, directory: Path) -> None:
        self._kube = kube
        self.name = f"f{kube.mark}"
        self.clock = FakeClock()
        self._path = kube.kubeconfig(str(directory / "kubeconfig"))
        self._presence = MemoryPresence(self.clock, NAMES, duration_s=D)
        self._objects = [
            KubernetesLeaseObjects(ApiServer(self._path), NAMESPACE, self.name, NAMES) for _ in range(2)
        ]
        self.ann, self.bob = (
            KubernetesLeases(
                objects,
                self._presence,
                (NAMESPACE, self.name),
                NAMES,
                duration_s=D,
                monotonic=self.clock.monotonic,
            )
            for objects in self._objects
        )
        # The first start waits.
        self.ann.round(ANN, {})
        self.bob.round(BOB, {})
        self.clock.advance(D + 1)

    def path(self, bucket: BucketName) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{object_name(bucket, self.name)}"

    def lease(self, bucket: BucketName) -> dict[str, Any]:
        answer = self._kube.ask("GET", self.path(bucket))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def services(self, address: str) -> KubernetesBucketServices:
        place = ServicePlace(NAMESPACE, self.name, address, 10_300)
        return KubernetesBucketServices(ApiServer(self._path), place)

    def close(self) -> None:
        for objects in self._objects:
            objects.close()


@pytest.fixture
def fleet(kube: Subject, tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(kube, tmp_path)
    yield found
    found.close()


def test_a_lease_is_made_renewed_released_and_taken_by_the_next(fleet: Fleet) -> None:
    held = fleet.ann.acquire(ANN, NAMES, NEVER)
    assert held.keys() == {ONE, TWO}
    until(lambda: fleet.bob.round(BOB, {}).leases[ONE].holder == ANN, "the watch tells of it")
    assert fleet.bob.acquire(BOB, [ONE], NEVER) == {}
    for _ in range(3):
        fleet.clock.advance(2)
        assert fleet.ann.round(ANN, held).renewed == {ONE, TWO}
    spec = fleet.lease(ONE)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("ann_10.0.0.1", 15)
    assert spec["renewTime"] > spec["acquireTime"]
    fleet.ann.release(ANN, held)
    assert not fleet.lease(ONE)["spec"].get("holderIdentity")
    until(lambda: fleet.bob.round(BOB, {}).leases[ONE].holder is None, "the watch tells of that")
    assert fleet.bob.acquire(BOB, [ONE], NEVER)[ONE] > held[ONE]
    assert fleet.lease(ONE)["spec"]["leaseTransitions"] == 2


def test_a_version_that_was_not_seen_refuses_and_one_of_our_own_is_read_again(
    fleet: Fleet, kube: Subject
) -> None:
    held = fleet.ann.acquire(ANN, [ONE], NEVER)
    item = fleet.lease(ONE)
    item["metadata"]["labels"]["team"] = "db"
    assert kube.ask("PUT", fleet.path(ONE), item).status_code == 200
    assert fleet.ann.round(ANN, held).renewed == {ONE}
    assert fleet.lease(ONE)["metadata"]["labels"]["team"] == "db"
    assert fleet.bob.acquire(BOB, [ONE], NEVER) == {}, "bob has not seen it, and makes none beside it"


def test_one_that_was_deleted_is_made_anew_by_its_holder(fleet: Fleet, kube: Subject) -> None:
    held = fleet.ann.acquire(ANN, [ONE], NEVER)
    assert kube.ask("DELETE", fleet.path(ONE)).status_code == 200
    assert fleet.ann.round(ANN, held).renewed == {ONE}
    assert fleet.lease(ONE)["metadata"]["annotations"]["vmscaler/token"] == str(held[ONE])
    assert fleet.ann.round(ANN, held).renewed == {ONE}


def test_names_of_buckets_lead_to_their_holder_and_what_is_right_stays_as_it_is(
    fleet: Fleet, kube: Subject
) -> None:
    def ours(bucket: BucketName, token: FencingToken) -> float:
        return 30.0

    def versions() -> list[str]:
        found = []
        for path in (f"/api/v1/namespaces/{NAMESPACE}/services", slices):
            page = kube.ask("GET", path, labelSelector=f"vmscaler/fleet={fleet.name}").json()
            found += [item["metadata"]["resourceVersion"] for item in page["items"]]
        return found

    slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    ann, bob = fleet.services("10.0.0.1"), fleet.services("10.0.0.2")
    assert ann.publish(dict.fromkeys(NAMES, FencingToken(7)), 10_303, ours) == {}
    before = versions()
    assert len(before) == 4
    assert ann.publish(dict.fromkeys(NAMES, FencingToken(7)), 10_303, ours) == {}
    assert versions() == before
    assert bob.publish({ONE: FencingToken(8)}, 10_304, ours) == {}
    assert ann.publish({ONE: FencingToken(7)}, 10_303, ours) == {}
    item = kube.ask("GET", f"{slices}/{object_name(ONE, fleet.name)}").json()
    assert [each["addresses"] for each in item["endpoints"]] == [["10.0.0.2"]]
    assert item["ports"] == [{"name": "http", "port": 10_304, "protocol": "TCP"}]
    assert fleet.services("fd00::2").publish({ONE: FencingToken(9)}, 10_303, ours) == {}
    item = kube.ask("GET", f"{slices}/{object_name(ONE, fleet.name)}").json()
    assert not item["endpoints"]
    before = versions()
    assert fleet.services("fd00::2").publish({ONE: FencingToken(9)}, 10_303, ours) == {}
    assert versions() == before
