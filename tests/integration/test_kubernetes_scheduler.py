"""Which scheduler's pod is in charge, on the API server double."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_scheduler import SWITCH_PAUSE_S, PodSchedulerWatch
from app.errors import PeerError, PeerRefused, PeerTimedOut
from tests.fakes.clock import FakeClock
from tests.fakes.kube_server import KubeServer
from tests.fleet_process import until

NAME = "autoscale-scheduler"


def pod(
    name: str, *, ip: str = "10.0.0.1", ready: str = "True", created: str = "2026-01-01T00:00:00Z"
) -> Any:
    return {
        "metadata": {
            "namespace": "kube-system",
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"name": NAME},
            "creationTimestamp": created,
        },
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    }


class Cluster:
    def __init__(self, kubeconfig: Path) -> None:
        self.server = KubeServer()
        self.clock = FakeClock()
        api = ApiServer(self.server.kubeconfig(str(kubeconfig)))
        self.watch = PodSchedulerWatch(api, "kube-system", f"name={NAME}", 10299, self.clock)

    def put(self, item: Any) -> None:
        self.server.store.put("pods", item)

    def delete(self, name: str) -> None:
        self.server.store.delete("pods", "kube-system", name)

    def name(self) -> str | None:
        found = self.watch.current()
        return None if found is None else found.name


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path / "kubeconfig")
    yield found
    found.server.close()


def test_the_ready_pod_is_in_charge(cluster: Cluster) -> None:
    cluster.put(pod("s1", ip="fd00::7"))
    found = cluster.watch.current()
    assert found is not None
    assert (found.name, found.uid, found.url) == ("s1", "uid-s1", "http://[fd00::7]:10299")


@pytest.mark.parametrize("change", [{"ready": "False"}, {"ip": ""}, {"ip": "evil.example"}])
def test_a_pod_that_is_not_ready_is_nobody(cluster: Cluster, change: dict[str, str]) -> None:
    cluster.put(pod("s1", **change))
    assert cluster.watch.current() is None


def test_pods_of_other_names_are_nobody(cluster: Cluster) -> None:
    other = pod("s1")
    other["metadata"]["labels"] = {"name": "other"}
    cluster.put(other)
    assert cluster.watch.current() is None


def test_a_second_candidate_changes_nothing_and_follows_a_deleted_one_after_the_pause(
    cluster: Cluster,
) -> None:
    cluster.put(pod("s1"))
    assert cluster.name() == "s1"
    cluster.put(pod("s2", ip="10.0.0.2", created="2026-01-02T00:00:00Z"))
    assert cluster.name() == "s1"
    cluster.delete("s1")
    until(lambda: cluster.name() is None, "the first is gone, and it is too soon for the second")
    cluster.clock.advance(SWITCH_PAUSE_S)
    assert cluster.name() == "s2"


def test_of_two_candidates_the_newest_is_chosen(cluster: Cluster) -> None:
    cluster.put(pod("old", created="2026-01-01T00:00:00Z"))
    cluster.put(pod("new", created="2026-01-03T00:00:00Z"))
    assert cluster.name() == "new"


def test_one_that_is_being_deleted_is_not_asked_any_more(cluster: Cluster) -> None:
    going = pod("s1")
    cluster.put(going)
    assert cluster.name() == "s1"
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z"
    cluster.put(going)
    until(lambda: cluster.name() is None, "it is not in charge any more")


def test_an_api_server_that_gives_no_answer_is_an_error_not_the_end_of_a_scheduler(cluster: Cluster) -> None:
    cluster.put(pod("s1"))
    assert cluster.name() == "s1"
    cluster.server.faults.denied = {("watch", "pods")}
    cluster.server.cut_watches()

    def fails() -> bool:
        try:
            return cluster.name() is None
        except PeerError:
            return True

    until(fails, "the failure is told")
    cluster.server.faults.denied = set()
    until(lambda: not fails(), "it is found again")
    assert cluster.name() == "s1"


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_right_that_is_missing_is_named(cluster: Cluster, verb: str) -> None:
    cluster.put(pod("s1"))
    if verb == "watch":
        assert cluster.name() == "s1"
    cluster.server.faults.denied = {(verb, "pods")}
    cluster.server.cut_watches()
    said: list[str] = []

    def is_named() -> bool:
        try:
            cluster.name()
        except PeerTimedOut:
            return False  # the watch that was cut is told first
        except PeerRefused as err:
            said.append(err.problem)
        return bool(said)

    until(is_named, "it is refused")
    assert "the rights list and watch on pods in namespace kube-system are needed" in said[0]
