"""Rights in the words of RBAC."""

from __future__ import annotations

import pytest

from app.protocols.kubernetes_rights import Right, needed, right_on


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/api/v1/namespaces/kube-system/pods", Right("list", "", "pods", "kube-system")),
        ("/apis/vm.neon.tech/v1/virtualmachines", Right("list", "vm.neon.tech", "virtualmachines")),
        (
            "/apis/vm.neon.tech/v1/namespaces/a/virtualmachines",
            Right("list", "vm.neon.tech", "virtualmachines", "a"),
        ),
        ("/api/v1/namespaces", Right("list", "", "namespaces")),
    ],
)
def test_a_collection_is_found_by_its_path(path: str, right: Right) -> None:
    assert right_on("list", path) == right


def test_a_right_is_told_as_a_sentence_a_rule_and_a_command() -> None:
    right = Right("patch", "vm.neon.tech", "virtualmachines")
    assert needed(["patch"], right) == (
        "the right patch on virtualmachines.vm.neon.tech in all namespaces is needed"
    )
    assert right.rule == ('{apiGroups: ["vm.neon.tech"], resources: ["virtualmachines"], verbs: ["patch"]}')
    assert right.question == "kubectl auth can-i patch virtualmachines.vm.neon.tech --all-namespaces"


def test_a_review_asks_for_one_namespace_or_for_all() -> None:
    spec = Right("list", "", "pods", "kube-system").review()["spec"]
    assert spec == {
        "resourceAttributes": {"verb": "list", "group": "", "resource": "pods", "namespace": "kube-system"}
    }
    assert Right("list", "", "pods").review()["spec"] == {
        "resourceAttributes": {"verb": "list", "group": "", "resource": "pods"}
    }
