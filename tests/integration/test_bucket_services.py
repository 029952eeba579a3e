"""Buckets' Services and EndpointSlices on the API server double: by the newest holder, and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_bucket_services import KubernetesBucketServices, ServicePlace
from app.cluster.ring import bucket_names
from app.errors import PeerRefused
from app.ports.store import BucketName, FencingToken
from tests.fakes.kube_server import KubeServer
from tests.fakes.kube_store import Json

ONE, TWO = (BucketName(name) for name in bucket_names(2))
OLD, NEW = FencingToken(7), FencingToken(8)


@pytest.fixture
def server() -> Iterator[KubeServer]:
    found = KubeServer()
    yield found
    found.close()


def services(server: KubeServer, directory: Path, address: str = "10.0.0.1") -> KubernetesBucketServices:
    api = ApiServer(server.kubeconfig(str(directory / "kubeconfig")))
    return KubernetesBucketServices(api, ServicePlace("ns", "vmscaler", address, 10_300))


def ours(bucket: BucketName, token: FencingToken) -> float | None:
    return 5.0


def addresses(server: KubeServer, name: str) -> list[str]:
    item: Json = server.store.get("endpointslices", "ns", name)
    return [address for endpoint in item["endpoints"] for address in endpoint["addresses"]]


def test_names_lead_to_the_holder_and_what_is_right_is_not_written_again(
    server: KubeServer, tmp_path: Path
) -> None:
    mine = services(server, tmp_path)
    assert mine.publish({ONE: OLD, TWO: OLD}, 10_303, ours) == {}
    assert addresses(server, ONE) == addresses(server, TWO) == ["10.0.0.1"]
    assert server.store.get("services", "ns", ONE)["spec"]["ports"][0]["port"] == 10_300
    before = server.seen.copy()
    assert mine.publish({ONE: OLD, TWO: OLD}, 10_303, ours) == {}
    assert dict(server.seen - before) == {("list", "services"): 1, ("list", "endpointslices"): 1}


def test_the_next_holder_takes_the_name_and_the_one_before_does_not_take_it_back(
    server: KubeServer, tmp_path: Path
) -> None:
    old, new = services(server, tmp_path), services(server, tmp_path, "10.0.0.2")
    old.publish({ONE: OLD}, 10_303, ours)
    assert new.publish({ONE: NEW}, 10_303, ours) == {}
    assert addresses(server, ONE) == ["10.0.0.2"]
    assert old.publish({ONE: OLD}, 10_303, ours) == {}
    assert addresses(server, ONE) == ["10.0.0.2"]


def test_a_bucket_that_was_lost_meanwhile_is_not_written(server: KubeServer, tmp_path: Path) -> None:
    assert services(server, tmp_path).publish({ONE: OLD}, 10_303, lambda bucket, token: None) == {}
    assert not server.store.objects


def test_a_version_that_is_another_by_now_refuses_the_write(server: KubeServer, tmp_path: Path) -> None:
    old, new = services(server, tmp_path), services(server, tmp_path, "10.0.0.2")
    old.publish({ONE: OLD}, 10_303, ours)

    def overtaken(bucket: BucketName, token: FencingToken) -> float | None:
        new.publish({ONE: FencingToken(9)}, 10_303, ours)
        return 5.0

    # Between its look and its request somebody newer wrote.
    late = services(server, tmp_path, "10.0.0.3")
    assert "409" in late.publish({ONE: NEW}, 10_303, overtaken)[ONE]
    assert addresses(server, ONE) == ["10.0.0.2"]


def test_what_somebody_has_changed_is_repaired(server: KubeServer, tmp_path: Path) -> None:
    mine = services(server, tmp_path)
    mine.publish({ONE: OLD}, 10_303, ours)
    item = server.store.get("endpointslices", "ns", ONE)
    item["endpoints"] = []
    server.store.put("endpointslices", item)
    server.store.delete("services", "ns", ONE)
    assert mine.publish({ONE: OLD}, 10_303, ours) == {}
    assert addresses(server, ONE) == ["10.0.0.1"]
    assert server.store.get("services", "ns", ONE)["metadata"]["name"] == ONE


def test_a_service_of_somebody_else_is_left_alone_and_named_and_the_others_go_on(
    server: KubeServer, tmp_path: Path
) -> None:
    theirs = {"metadata": {"namespace": "ns", "name": ONE}, "spec": {"ports": [{"port": 80}]}}
    server.store.put("services", theirs)
    problems = services(server, tmp_path).publish({ONE: OLD, TWO: OLD}, 10_303, ours)
    assert problems.keys() == {ONE}
    assert f"services ns/{ONE} is there" in problems[ONE]
    assert server.store.get("services", "ns", ONE)["spec"] == theirs["spec"]
    assert addresses(server, TWO) == ["10.0.0.1"]


def test_a_holder_with_an_address_of_the_other_kind_empties_the_slice_of_the_one_before(
    server: KubeServer, tmp_path: Path
) -> None:
    services(server, tmp_path).publish({ONE: OLD}, 10_303, ours)
    assert services(server, tmp_path, "fd00::2").publish({ONE: NEW}, 10_303, ours) == {}
    assert (addresses(server, ONE), addresses(server, f"{ONE}-ipv6")) == ([], ["fd00::2"])


def test_a_missing_right_is_named(server: KubeServer, tmp_path: Path) -> None:
    server.faults.denied.add(("create", "endpointslices"))
    told = services(server, tmp_path).publish({ONE: OLD}, 10_303, ours)[ONE]
    assert "list, create and update on endpointslices in namespace ns" in told
    server.faults.denied.add(("list", "services"))
    with pytest.raises(PeerRefused):
        services(server, tmp_path).publish({ONE: OLD}, 10_303, ours)
