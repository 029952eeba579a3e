"""compose/kubernetes: objects that Kubernetes understands, that fit each other and need no more."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes_fields import problems
from tests.kustomization import Manifest, build, identity
from tests.manifests import ALL_OVERLAYS, Deployed, container_of, files_of, labels_of, ours, pod_of


def kubectl(directory: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not here; tests/kustomization.py stands in for it in the other tests")
    return subprocess.run(
        [program, "kustomize", str(directory)], capture_output=True, text=True, timeout=120, check=False
    )


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    """Without the hashes of generated names, and line ends in base64."""
    hashed = [each["metadata"]["name"] for each in manifests if each["kind"] in ("ConfigMap", "Secret")]
    text = json.dumps(manifests)
    for name in hashed:
        text = text.replace(f'"{name}"', f'"{re.sub(r"-[a-z0-9]{10}$", "", name)}"')
    found = {identity(each): each for each in json.loads(text)}
    for each in found.values():
        if each["kind"] == "Secret":
            each["data"] = {key: "".join(value.split()) for key, value in each["data"].items()}
    return found


@pytest.mark.parametrize("overlay", ALL_OVERLAYS)
def test_kubectl_builds_what_the_other_tests_look_at(kubernetes: Path, overlay: str) -> None:
    directory = kubernetes / "overlays" / overlay
    done = kubectl(directory)
    assert done.returncode == 0, done.stderr
    real = list(yaml.safe_load_all(done.stdout))
    assert comparable(real) == {identity(each): each for each in build(directory)}
    assert [line for each in real for line in problems(each)] == []


def test_without_secrets_of_its_own_nothing_can_be_deployed(kubernetes: Path, tmp_path: Path) -> None:
    bare = tmp_path / "kubernetes"
    shutil.copytree(kubernetes, bare, ignore=shutil.ignore_patterns("secrets"))
    with pytest.raises(FileNotFoundError, match="secrets/redis-"):
        build(bare / "overlays" / "free")
    assert "secrets/redis-" in kubectl(bare / "overlays" / "free").stderr


def test_each_field_is_one_that_kubernetes_has(deployed: Deployed) -> None:
    assert [line for each in deployed.manifests for line in problems(each)] == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda pod: pod.update(terminationGracePeriod=30), "terminationGracePeriod"),
        (lambda pod: pod.update(terminationGracePeriodSeconds="30"), "is not of type 'integer'"),
        (lambda pod: pod["containers"][0].pop("name"), "'name' is a required property"),
        (lambda pod: pod["containers"][0]["livenessProbe"].update(httpGett={}), "httpGett"),
    ],
)
def test_a_field_that_kubernetes_does_not_have_is_told(
    kubernetes: Path, spoil: Callable[[Any], object], told: str
) -> None:
    worker = copy.deepcopy(Deployed(kubernetes, "free").workload("worker"))
    spoil(worker["spec"]["template"]["spec"])
    (line,) = problems(worker)
    assert told in line


def test_every_object_has_a_name_of_its_own_and_a_namespace(deployed: Deployed) -> None:
    names = [identity(each) for each in deployed.manifests]
    assert len(set(names)) == len(names)
    clusterwide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    places = {
        each["metadata"].get("namespace") for each in deployed.manifests if each["kind"] not in clusterwide
    }
    assert places == {"vmscaler", "kube-system"}
    assert [
        each["kind"] for each in deployed.manifests if each["metadata"].get("namespace") == "kube-system"
    ] == [
        "Role",
        "RoleBinding",
    ]


def test_selectors_find_pods_and_each_workload_its_own_alone(deployed: Deployed) -> None:
    pods = [labels_of(each) for each in deployed.workloads()]
    for workload in deployed.workloads():
        wanted = workload["spec"]["selector"]["matchLabels"]
        assert [labels for labels in pods if wanted.items() <= labels.items()] == [labels_of(workload)]
        for spread in pod_of(workload).get("topologySpreadConstraints", []):
            assert spread["labelSelector"]["matchLabels"] == wanted
    for each in deployed.of("PodDisruptionBudget"):
        assert each["spec"]["selector"]["matchLabels"] in pods
    for service in deployed.of("Service"):
        (found,) = (each for each in deployed.workloads() if labels_of(each) == service["spec"]["selector"])
        ports = {port["name"]: port["containerPort"] for port in container_of(found)["ports"]}
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"


def test_no_container_may_more_than_an_ordinary_process(deployed: Deployed) -> None:
    for workload in deployed.workloads():
        pod, container = pod_of(workload), container_of(workload)
        whose = pod["securityContext"]
        assert whose["runAsNonRoot"] is True
        assert (whose["runAsUser"], whose["runAsGroup"], whose["fsGroup"]) == (10001, 10001, 10001)
        assert whose["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert all("hostPath" not in volume for volume in pod.get("volumes", []))
        for volume in pod["volumes"]:
            assert volume.get("secret", {}).get("defaultMode", 0o440) == 0o440
    (namespace,) = deployed.of("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_only_workers_have_a_token_and_each_process_has_an_account_of_its_own(deployed: Deployed) -> None:
    accounts = {each["metadata"]["name"] for each in deployed.of("ServiceAccount")}
    assert {pod_of(each)["serviceAccountName"] for each in deployed.workloads()} == accounts
    assert len(accounts) == len(deployed.workloads())
    assert all(each["automountServiceAccountToken"] is False for each in deployed.of("ServiceAccount"))
    with_token = [
        each["metadata"]["name"]
        for each in deployed.workloads()
        if pod_of(each)["automountServiceAccountToken"]
    ]
    assert with_token == ["vmscaler-worker"]


def test_resources_are_those_of_the_page_about_sizing(deployed: Deployed) -> None:
    for workload in deployed.workloads():
        resources = container_of(workload)["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}
        # A limit of CPU would make polls late.
        assert resources["limits"].keys() == {"memory"}
        assert mib(resources["requests"]["memory"]) < mib(resources["limits"]["memory"])
    page = (Path(__file__).parents[2] / "docs" / "sizing.md").read_text()
    base, each = map(int, re.search(r"memory of a worker \| (\d+) MiB \+ (\d+) KiB a VM", page).groups())  # type: ignore[union-attr]
    worker = container_of(deployed.workload("worker"))["resources"]
    assert mib(worker["requests"]["memory"]) > base + each * 1000 / 1024
    assert mib(worker["limits"]["memory"]) > base + each * 2000 / 1024


def mib(text: str) -> int:
    assert text.endswith("Mi")
    return int(text[:-2])


def test_redis_keeps_what_it_is_told_and_knows_users_by_their_hashes(deployed: Deployed) -> None:
    redis = deployed.workload("redis")
    command = container_of(redis)["command"]
    options = dict(zip(command[1::2], command[2::2], strict=False)) | {"--bind": command[4]}
    assert "--appendonly" in command
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert options["--dir"] == "/data"
    files = {path: text for path, text, _ in files_of(deployed, redis)}
    users = files[command[command.index("--aclfile") + 1]]
    assert "user default off" in users
    passwords = [
        deployed.data("Secret", f"vmscaler-redis-{name}")["password"].strip() for name in ours(deployed)
    ]
    assert all(password not in users for password in passwords)
    assert ("vmscaler:*:" in users) == deployed.overlay.startswith("node-bound")
