"""The rights that compose/kubernetes gives to an account, in force at an API server double."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fakes.kube_rights import Account, Request
from tests.manifests import Deployed

Right = tuple[str, str, str, str]
"""Namespace ("*" for all of them), group, resource, verb."""


@dataclass
class DeployedAccount(Account):
    """A ServiceAccount with what the manifests bind to it.

    Attributes:
        granted: all its rights.
        used: those that it needed for what it has done.
        refused: what it asked for in vain.
    """

    granted: set[Right] = field(default_factory=set)
    used: set[Right] = field(default_factory=set)
    refused: set[Request] = field(default_factory=set)

    def may(self, asked: Request) -> bool:
        """RBAC's rule: all that is bound adds up, and a Role counts in its namespace only."""
        own: Right = (asked.namespace, asked.group, asked.resource, asked.verb)
        everywhere: Right = ("*", asked.group, asked.resource, asked.verb)
        for right in (own, everywhere):
            if right in self.granted:
                self.used.add(right)
                return True
        self.refused.add(asked)
        return False


def account_of(deployed: Deployed, name: str) -> DeployedAccount:
    """The account that pods of this name run as."""
    found = DeployedAccount(f"system:serviceaccount:vmscaler:{name}")
    for binding in deployed.of("ClusterRoleBinding", "RoleBinding"):
        subjects = [(each["kind"], each["namespace"], each["name"]) for each in binding["subjects"]]
        if ("ServiceAccount", "vmscaler", name) not in subjects:
            continue
        about, role = binding["roleRef"], binding["metadata"].get("namespace")
        (rules,) = (
            each["rules"]
            for each in deployed.of(about["kind"])
            if each["metadata"]["name"] == about["name"]
            and (about["kind"] == "ClusterRole" or each["metadata"]["namespace"] == role)
        )
        for rule in rules:
            assert rule.keys() == {"apiGroups", "resources", "verbs"}
            found.granted |= {
                (role or "*", group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return found
