"""Rights at a Kubernetes API server in the words of its RBAC: what is needed, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource.

    Attributes:
        group: of the API; "" for the core's.
        namespace: None: in all.
    """

    verb: str
    group: str
    resource: str
    namespace: str | None = None

    @property
    def qualified(self) -> str:
        """The resource as `kubectl` takes it: `virtualmachines.vm.neon.tech`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def place(self) -> str:
        """`in namespace sim`, or `in all namespaces`."""
        return "in all namespaces" if self.namespace is None else f"in namespace {self.namespace}"

    @property
    def rule(self) -> str:
        """What a Role, or a ClusterRole, must have among its `rules`."""
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["{self.verb}"]}}'

    @property
    def question(self) -> str:
        """The `kubectl` command that says whether the caller has it."""
        where = "--all-namespaces" if self.namespace is None else f"-n {self.namespace}"
        return f"kubectl auth can-i {self.verb} {self.qualified} {where}"

    def review(self) -> dict[str, object]:
        """The SelfSubjectAccessReview that asks for it; answered with `.status.allowed`."""
        asked = {"verb": self.verb, "group": self.group, "resource": self.resource}
        if self.namespace is not None:
            asked["namespace"] = self.namespace
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }


def needed(verbs: Sequence[str], right: Right) -> str:
    """What to add to a refusal: `the rights list and watch on pods in namespace kube-system are needed`."""
    rights = f"the right {verbs[0]}" if len(verbs) == 1 else f"the rights {' and '.join(verbs)}"
    return f"{rights} on {right.qualified} {right.place} {'is' if len(verbs) == 1 else 'are'} needed"


def right_on(verb: str, path: str) -> Right:
    """The right for a verb at a collection's path, such as `/api/v1/namespaces/kube-system/pods`."""
    parts = path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    if rest[0] == "namespaces" and len(rest) > 2:
        return Right(verb, group, rest[2], rest[1])
    return Right(verb, group, rest[0])
