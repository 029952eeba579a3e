"""Events on objects that can't be read, on the API server double."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_events import MAX_MESSAGE, KubernetesEvents
from app.errors import PeerRefused
from app.ports.vm import VmKey
from tests.fakes.kube_server import KubeServer
from tests.fakes.kube_store import Json

KEY = VmKey("sim/a")


@pytest.fixture
def server() -> Iterator[KubeServer]:
    found = KubeServer()
    yield found
    found.close()


def events(server: KubeServer) -> list[Json]:
    return [item for (resource, _, _), item in server.store.objects.items() if resource == "events"]


def reports(server: KubeServer, path: Path, uid: str | None = "u1") -> KubernetesEvents:
    api = ApiServer(server.kubeconfig(str(path / "kubeconfig")))
    return KubernetesEvents(api, lambda key: uid, lambda: 1_700_000_000_000, "worker1")


def test_an_event_says_what_is_wrong_with_the_object(server: KubeServer, tmp_path: Path) -> None:
    reports(server, tmp_path).warn(KEY, ".spec.guest: is missing", timeout_s=30)
    (event,) = events(server)
    assert event["involvedObject"] == {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "namespace": "sim",
        "name": "a",
        "uid": "u1",
    }
    assert (event["type"], event["reason"]) == ("Warning", "Unreadable")
    assert event["message"] == "not scaled: .spec.guest: is missing"
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"


def test_the_same_said_by_another_worker_makes_no_second_event(server: KubeServer, tmp_path: Path) -> None:
    for _ in range(2):
        reports(server, tmp_path).warn(KEY, "x", timeout_s=30)
    reports(server, tmp_path).warn(KEY, "y", timeout_s=30)
    reports(server, tmp_path, "u2").warn(KEY, "x", timeout_s=30)
    assert len(events(server)) == 3


def test_an_object_that_is_gone_has_no_event(server: KubeServer, tmp_path: Path) -> None:
    reports(server, tmp_path, None).warn(KEY, "x", timeout_s=30)
    assert events(server) == []
    assert server.seen.total() == 0


def test_a_long_problem_fits(server: KubeServer, tmp_path: Path) -> None:
    reports(server, tmp_path).warn(VmKey("sim/" + "n" * 253), "x\n" * 5000, timeout_s=30)
    (event,) = events(server)
    assert len(event["message"]) <= MAX_MESSAGE
    assert len(event["metadata"]["name"]) <= 253


def test_the_right_that_is_missing_is_named(server: KubeServer, tmp_path: Path) -> None:
    server.faults.denied = {("create", "events")}
    with pytest.raises(PeerRefused, match="create on events in namespace sim"):
        reports(server, tmp_path).warn(KEY, "x", timeout_s=30)
