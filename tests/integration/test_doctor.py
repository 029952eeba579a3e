"""`vmscaler doctor` on the API server double and a Redis of its own, with each thing broken."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection
from app.cli.root import run
from tests.fakes.guest_on_loop import GuestOnLoop
from tests.fakes.neonvm_cluster import VMS, NeonvmCluster, vm_object
from tests.neonvm_world import Pages

SECRET = "kubernetes-token-that-nobody-sees"


@dataclass
class Found:
    """What `doctor --json` said."""

    status: int
    findings: list[dict[str, str]]
    text: str

    def verdicts(self, about: str) -> list[str]:
        return [each["verdict"] for each in self.findings if each["about"] == about]

    def bad(self, about: str) -> dict[str, str]:
        (one,) = [each for each in self.findings if each["about"] == about and each["verdict"] != "ok"]
        return one


@dataclass
class Ward:
    """All that is looked at, well at first."""

    redis: EmbeddedRedis
    directory: Path
    capsys: pytest.CaptureFixture[str]
    cluster: NeonvmCluster = field(default_factory=NeonvmCluster)
    closed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pages = Pages("127.0.3.1")
        self.guest = GuestOnLoop(at=("127.0.3.1", 0))
        self.cluster.store.put(VMS, vm_object("a", pod_ip="127.0.3.1"))
        self.scheduler = Pages("127.0.3.2")
        self.put_scheduler("127.0.3.2")
        self.sections: dict[str, Any] = {
            "redis": {"url": self.redis.url},
            "platform": {"kind": "neonvm"},
            "kubernetes": {
                "kubeconfig": self.cluster.server.kubeconfig(str(self.directory / "kube"), SECRET)
            },
            "metrics": {"port": self.pages.port},
            "monitor": {"serverPort": self.guest.port},
            "scheduler": {"requestPort": self.scheduler.port},
        }

    def put_scheduler(self, ip: str) -> None:
        metadata = {"namespace": "kube-system", "name": "s", "labels": {"name": "autoscale-scheduler"}}
        ready = [{"type": "Ready", "status": "True"}]
        self.cluster.store.put("pods", {"metadata": metadata, "status": {"podIP": ip, "conditions": ready}})

    def examine(self, *arguments: str) -> Found:
        config = self.directory / "config.json"
        config.write_text(json.dumps(self.sections))
        status = run(["--config", str(config), "doctor", "--json", *arguments])
        text = self.capsys.readouterr().out
        answer = json.loads(text)
        assert answer["ok"] is (status == 0)
        return Found(status, answer["findings"], text)

    def close(self, *names: str) -> None:
        """End these, once; without names: all."""
        for name in names or ("pages", "guest", "scheduler", "cluster"):
            if name not in self.closed:
                self.closed.add(name)
                getattr(self, name).close()


@pytest.fixture
def ward(
    module_redis: EmbeddedRedis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ward]:
    monkeypatch.setenv("K8S_POD_IP", "127.0.0.1")
    found = Ward(module_redis, tmp_path, capsys)
    yield found
    found.close()


def test_all_is_well(ward: Ward) -> None:
    found = ward.examine()
    assert found.status == 0
    assert {each["about"] for each in found.findings if each["verdict"] != "ok"} <= {"fleet"}
    for about in ("Redis", "API server", "API server clock", "CRD", "rights", "scheduler", "VMs"):
        assert found.verdicts(about) == ["ok"], about
    assert found.verdicts("metrics of sim/a") == found.verdicts("monitor of sim/a") == ["ok"]
    assert SECRET not in found.text
    assert ward.scheduler.asked.total() == 0, "no permit was asked for"


def test_a_right_that_is_missing_is_told_as_a_rule_and_a_command(ward: Ward) -> None:
    ward.cluster.server.faults.denied = {("patch", VMS), ("create", "events")}
    found = ward.examine()
    assert found.status == 1
    patch, event = [each for each in found.findings if each["about"] == "rights"]
    assert (patch["verdict"], event["verdict"]) == ("problem", "warning")
    assert patch["text"] == "we may not patch virtualmachines.vm.neon.tech in all namespaces"
    assert 'resources: ["virtualmachines"], verbs: ["patch"]' in patch["next"]
    assert "kubectl auth can-i patch virtualmachines.vm.neon.tech --all-namespaces" in patch["next"]
    assert "create events" in event["text"]


def test_rights_are_asked_for_in_the_namespaces_of_the_configuration(ward: Ward) -> None:
    ward.sections["kubernetes"]["namespaces"] = ["sim"]
    ward.sections["ownership"] = {"leases": "kubernetes"}
    ward.sections["kubernetes"]["leaseNamespace"] = "vmscaler"
    ward.cluster.server.faults.denied = {("list", VMS), ("update", "leases")}
    told = [each["text"] for each in ward.examine().findings if each["about"] == "rights"]
    assert told == [
        "we may not list virtualmachines.vm.neon.tech in namespace sim",
        "we may not update leases.coordination.k8s.io in namespace vmscaler",
    ]


def test_a_crd_that_is_not_installed_is_a_problem(ward: Ward) -> None:
    ward.cluster.server.faults.absent = {VMS}
    assert "install" in ward.examine().bad("CRD")["next"]


def test_an_api_server_that_is_away_or_wants_another_token_costs_the_others_nothing(ward: Ward) -> None:
    ward.cluster.server.faults.token = "another"
    found = ward.examine()
    assert "401" in found.bad("API server")["text"]
    assert SECRET not in found.text
    ward.close("cluster")
    found = ward.examine()
    assert "no connection" in found.bad("API server")["text"]
    assert found.verdicts("Redis") == ["ok"]


def test_a_scheduler_that_is_missing_or_silent_is_a_problem(ward: Ward) -> None:
    ward.put_scheduler("127.0.3.3")
    assert "no connection" in ward.examine().bad("scheduler")["text"]
    ward.cluster.store.delete("pods", "kube-system", "s")
    found = ward.examine().bad("scheduler")
    assert "no pod with name=autoscale-scheduler in namespace kube-system" in found["text"]
    ward.cluster.server.faults.denied = {("list", "pods")}
    assert "the rights list and watch on pods" in ward.examine().bad("scheduler")["text"]


def test_a_vms_page_and_monitor_that_do_not_answer_are_problems(ward: Ward) -> None:
    ward.close("pages")
    found = ward.examine()
    assert found.bad("metrics of sim/a")["verdict"] == "problem"
    assert found.verdicts("monitor of sim/a") == ["ok"]
    ward.close("guest")
    assert "no downscale" in ward.examine().bad("monitor of sim/a")["next"]


def test_the_monitor_is_only_spoken_to_when_asked_for(ward: Ward) -> None:
    assert "not spoken to" in ward.examine().text
    assert "answers a health check" in ward.examine("--ask-monitor").text


def test_a_vm_is_chosen_by_name_and_one_that_is_not_ours_is_a_problem(ward: Ward) -> None:
    ward.cluster.store.put(VMS, vm_object("b", pod_ip="127.0.3.1"))
    assert ward.examine("--vm", "sim/b").verdicts("metrics of sim/b") == ["ok"]
    assert "autoscaling.neon.tech/enabled=true" in ward.examine("--vm", "sim/c").bad("VM sim/c")["next"]
    ward.cluster.annotate("b", **{"autoscaling.neon.tech/bounds": "{"})
    found = ward.examine("--vm", "sim/b")
    assert "can't be read" in found.bad("VM sim/b")["text"]
    assert found.bad("VMs")["verdict"] == "warning"


def test_no_vm_of_ours_is_a_warning(ward: Ward) -> None:
    ward.cluster.store.delete(VMS, "sim", "a")
    found = ward.examine()
    assert (found.status, found.bad("VMs")["verdict"]) == (0, "warning")


def test_a_redis_that_evicts_or_is_away_is_a_problem(ward: Ward) -> None:
    connection = RedisConnection(ward.redis.url)
    connection.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    connection.execute("CONFIG", "SET", "appendonly", "no")
    try:
        found = ward.examine()
    finally:
        connection.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
        connection.close()
    assert "allkeys-lru" in found.bad("Redis memory")["text"]
    assert found.bad("Redis persistence")["verdict"] == "warning"
    ward.sections["redis"] = {"url": "redis://user:hunter2@127.0.0.1:1/0"}
    found = ward.examine()
    assert found.bad("Redis")["verdict"] == "problem"
    assert found.verdicts("API server") == ["ok"]
    assert "hunter2" not in found.text


def test_nothing_that_stays_silent_makes_it_hang(ward: Ward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ward.sections["redis"] = {"url": f"redis://127.0.0.1:{silent.getsockname()[1]}/0"}
        found = ward.examine()
    assert found.status == 1
    assert found.bad("Redis")["verdict"] == "problem"
    assert found.verdicts("VMs") == ["ok"]


def test_checks_of_a_cluster_are_not_made_where_the_platform_has_none(ward: Ward) -> None:
    ward.sections["platform"] = {"kind": "sim", "url": "http://127.0.0.1:1"}
    found = ward.examine()
    abouts = {each["about"] for each in found.findings}
    assert abouts.isdisjoint({"API server", "CRD", "rights"})
    assert "vmscaler scheduler" in found.bad("scheduler")["next"]
    assert found.bad("VMs")["verdict"] == "problem"


def test_people_get_a_line_each_and_what_to_do_below_it(ward: Ward) -> None:
    ward.cluster.server.faults.absent = {VMS}
    ward.examine()
    status = run(["--config", str(ward.directory / "config.json"), "doctor"])
    lines = ward.capsys.readouterr().out.splitlines()
    assert status == 1
    at = lines.index("problem  CRD: virtualmachines.vm.neon.tech/v1 is not served")
    assert lines[at + 1] == "         → install NeonVM's CRDs in this cluster"
    assert lines[-1].startswith("1 problem, ")
