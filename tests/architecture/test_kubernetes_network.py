"""compose/kubernetes' network policies: every hop that a process makes is open at both ends, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.kustomization import Manifest
from tests.manifests import OURS, Deployed, labels_of, settings_of

Hop = tuple[str, str, int]
"""Who, to whom, to which port."""

NAMESPACE = {"kubernetes.io/metadata.name": "vmscaler"}
VM = {"vm.neon.tech/name": "vm-1"}
OUTSIDE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "scheduler": ({"kubernetes.io/metadata.name": "kube-system"}, {"name": "autoscale-scheduler"}),
    "dns": ({"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"}),
    "vm": ({"kubernetes.io/metadata.name": "tenants"}, VM),
    "prometheus": (
        {"kubernetes.io/metadata.name": "monitoring", "vmscaler/metrics": "true"},
        {"app": "prometheus"},
    ),
    "ingress": ({"kubernetes.io/metadata.name": "ingress", "vmscaler/flower": "true"}, {"app": "nginx"}),
    "stranger": ({"kubernetes.io/metadata.name": "tenants"}, {"app": "web"}),
    "stranger here": (NAMESPACE, {"app": "web"}),
}
"""Labels of the namespace and of the pod."""

ANYWHERE = ("0.0.0.0/0", "::/0")


def pods(deployed: Deployed) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Everyone, ours included."""
    own = {each["metadata"]["labels"][OURS]: (NAMESPACE, labels_of(each)) for each in deployed.workloads()}
    return OUTSIDE | own


def matches(selector: Manifest, labels: dict[str, str]) -> bool:
    """Kubernetes' rule for a selector."""
    for each in selector.get("matchExpressions", []):
        match each:
            case {"operator": "Exists", "key": key}:
                is_met = key in labels
            case {"operator": "In", "key": key, "values": values}:
                is_met = labels.get(key) in values
            case _:
                raise AssertionError(each)
        if not is_met:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def peers(deployed: Deployed, rules: list[Manifest] | None) -> Iterator[str]:
    """Who is meant by `from` or `to`."""
    for rule in rules or []:
        if "ipBlock" in rule:
            yield "anywhere" if rule["ipBlock"]["cidr"] in ANYWHERE else rule["ipBlock"]["cidr"]
            continue
        for name, (namespace, labels) in pods(deployed).items():
            here = namespace == NAMESPACE
            is_there = matches(rule["namespaceSelector"], namespace) if "namespaceSelector" in rule else here
            if is_there and matches(rule.get("podSelector", {}), labels):
                yield name


def hops(deployed: Deployed, direction: str) -> set[Hop]:
    """All that the policies of a direction allow to pods of ours."""
    found = set()
    side = "from" if direction == "ingress" else "to"
    own = {each["metadata"]["labels"][OURS]: labels_of(each) for each in deployed.workloads()}
    for policy in deployed.of("NetworkPolicy"):
        spec = policy["spec"]
        assert spec["policyTypes"]
        for component, labels in own.items():
            if not matches(spec["podSelector"], labels):
                continue
            for rule in spec.get(direction, []):
                # A rule without peers or ports would allow all of them.
                assert rule[side]
                assert rule["ports"]
                for other in peers(deployed, rule[side]):
                    for port in rule["ports"]:
                        who, whom = (other, component) if direction == "ingress" else (component, other)
                        found.add((who, whom, port["port"]))
    return found


def test_whatever_is_not_named_is_denied(deployed: Deployed) -> None:
    (policy,) = (each for each in deployed.of("NetworkPolicy") if each["metadata"]["name"] == "deny-all")
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_each_hop_is_one_that_a_process_makes(deployed: Deployed, tmp_path: Path) -> None:
    settings = settings_of(deployed, "worker", tmp_path)
    assert settings.dump_state is not None
    web, dump = settings.web.port, settings.dump_state.port
    components = {each["metadata"]["labels"][OURS] for each in deployed.workloads()}
    outward = {(name, "dns", 53) for name in components} | {
        (name, "169.254.20.10/32", 53) for name in components
    }
    outward |= {(name, "redis", 6379) for name in components - {"redis"}}
    outward |= {("worker", "anywhere", 443), ("worker", "anywhere", 6443)}
    outward |= {("worker", "scheduler", settings.scheduler.request_port)}
    outward |= {("worker", "vm", settings.metrics.port), ("worker", "vm", settings.monitor.server_port)}
    outward |= {("worker", "worker", web), ("worker", "worker", dump), ("worker", "beat", web)}
    assert hops(deployed, "egress") == outward
    inward = {(name, "redis", 6379) for name in components - {"redis"}}
    inward |= {(name, each, web) for name in ("worker", "prometheus") for each in ("worker", "beat")}
    inward |= {("worker", "worker", dump)}
    if "flower" in components:
        inward |= {("ingress", "flower", 5555)}
    if deployed.overlay.endswith("-with-all"):
        inward |= {("vm", "worker", web)}
    assert hops(deployed, "ingress") == inward


def test_a_hop_between_pods_of_ours_is_open_at_both_ends(deployed: Deployed) -> None:
    own = {each["metadata"]["labels"][OURS] for each in deployed.workloads()}
    outward = {hop for hop in hops(deployed, "egress") if hop[1] in own}
    inward = {hop for hop in hops(deployed, "ingress") if hop[0] in own}
    assert outward == inward != set()
