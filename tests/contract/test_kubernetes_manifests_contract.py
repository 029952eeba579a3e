"""compose/kubernetes as a real API server takes it, and the rights that a worker has by it."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from tests.kube_subject import REVIEWS
from tests.manifests import ALL_OVERLAYS, copy_with_secrets
from tests.real_apiserver import ASSETS, RealApiServer

pytestmark = pytest.mark.skipif(not ASSETS, reason="KUBEBUILDER_ASSETS is not set")

Right = tuple[str, str, str, str]
"""Namespace (any: `*`), group, resource, verb."""

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    ("vm.neon.tech", "virtualmachines"),
    ("vm.neon.tech", "virtualmachines/status"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("", "pods"),
    ("", "pods/exec"),
    ("", "events"),
    ("", "services"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "serviceaccounts/token"),
    ("rbac.authorization.k8s.io", "roles"),
)
PLACES = ("", "sim", "kube-system", "vmscaler")


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_secrets(tmp_path_factory.mktemp("manifests"))


@pytest.mark.parametrize("overlay", ALL_OVERLAYS)
def test_each_overlay_is_taken_without_an_unknown_field(
    real_apiserver: RealApiServer, kubernetes: Path, overlay: str
) -> None:
    text = real_apiserver.kubectl("kustomize", str(kubernetes / "overlays" / overlay))
    said = real_apiserver.kubectl("apply", "--validate=strict", "-f", "-", text=text)
    objects = [line for line in said.splitlines() if line]
    assert len(objects) == text.count("\nkind: ") + text.startswith("kind: ")
    assert all(line.endswith((" created", " configured", " unchanged")) for line in objects)
    real_apiserver.kubectl(
        "delete", "--wait=false", "--ignore-not-found", "-f", "-", text=without_namespaces(text)
    )


def without_namespaces(text: str) -> str:
    """Nobody ends a namespace's deletion here."""
    return "\n---\n".join(
        each for each in text.split("\n---\n") if "\nkind: Namespace\n" not in f"\n{each}\n"
    )


def rights_by(rules: list[dict[str, list[str]]], namespace: str) -> set[Right]:
    return {
        (namespace, group, resource, verb)
        for rule in rules
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def test_a_worker_may_do_what_the_roles_say_and_nothing_else(
    real_apiserver: RealApiServer, kubernetes: Path
) -> None:
    text = real_apiserver.kubectl("kustomize", str(kubernetes / "overlays" / "free-with-all"))
    real_apiserver.kubectl("apply", "-f", "-", text=text)
    listed = real_apiserver.kubectl("get", "clusterroles,roles", "-A", "-o", "json")
    given: set[Right] = set()
    for role in json.loads(listed)["items"]:
        if role["metadata"]["name"].startswith("vmscaler-"):
            given |= rights_by(role["rules"], role["metadata"].get("namespace", "*"))
    assert given
    token = real_apiserver.account_token("vmscaler", "vmscaler-worker")
    asked = set(product(PLACES, RESOURCES, VERBS))
    expected = {
        (place, *resource, verb)
        for place, resource, verb in asked
        if {("*", *resource, verb), (place, *resource, verb)} & given
    }
    found = {
        (place, *resource, verb)
        for place, resource, verb in asked
        if may(real_apiserver, token, place, resource, verb)
    }
    assert found == expected
    real_apiserver.kubectl("delete", "--wait=false", "-f", "-", text=without_namespaces(text))


def may(server: RealApiServer, token: str, place: str, resource: tuple[str, str], verb: str) -> bool:
    plain, _, sub = resource[1].partition("/")
    about = {"namespace": place, "group": resource[0], "resource": plain, "subresource": sub, "verb": verb}
    answer = server.ask("POST", REVIEWS, {"spec": {"resourceAttributes": about}}, token=token)
    assert answer.status_code == 201, answer.text
    return bool(answer.json()["status"]["allowed"])
