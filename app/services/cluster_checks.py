"""Whether a Kubernetes API server has what platform neonvm needs: an answer, the CRD, our rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from app.ports.probes import ClusterProbe
from app.protocols.kubernetes_rights import Right
from app.protocols.virtual_machine import GROUP, PLURAL, VERSION
from app.services.checkup import Check, Finding, ok, problem, warning
from app.services.clock_checks import judge_clock

DATE_DOUBT_MS = 1_000
"""The Date header tells whole seconds."""

_REACH = "look at kubernetes.kubeconfig, or at the pod's service account (docs/platforms/neonvm.md)"


def cluster_checks(
    new_probe: Callable[[], ClusterProbe],
    needed: Sequence[Right],
    useful: Sequence[Right],
    *,
    needs_vms: bool,
) -> list[Check]:
    """The checks of one API server.

    Args:
        new_probe: connections for one check; they run side by side.
        needed: rights without which something does not work.
        useful: rights without which less is told.
        needs_vms: whether the VMs are there, too, not only leases.
    """
    crd = [Check("CRD", lambda: _crd(new_probe()), _REACH)] if needs_vms else []
    return [
        Check("API server", lambda: _server(new_probe()), _REACH),
        *crd,
        Check("rights", lambda: _rights(new_probe(), needed, useful), _REACH),
    ]


def _server(probe: ClusterProbe) -> Iterator[Finding]:
    facts = probe.look()
    yield ok("API server", f"answers, version {facts.version}")
    if facts.clock_ms is not None:
        yield judge_clock(
            "API server clock", facts.clock_ms, doubt_ms=DATE_DOUBT_MS, whose="the API server's"
        )


def _crd(probe: ClusterProbe) -> Iterator[Finding]:
    name = f"{PLURAL}.{GROUP}/{VERSION}"
    if probe.has_resource(GROUP, VERSION, PLURAL):
        yield ok("CRD", f"{name} is served")
    else:
        yield problem("CRD", f"{name} is not served", "install NeonVM's CRDs in this cluster")


def _rights(probe: ClusterProbe, needed: Sequence[Right], useful: Sequence[Right]) -> Iterator[Finding]:
    missing = [right for right in needed if not probe.is_allowed(right)]
    for right in missing:
        yield problem("rights", _lacks(right), _grant(right))
    for right in useful:
        if not probe.is_allowed(right):
            yield warning("rights", _lacks(right), _grant(right))
    if not missing:
        yield ok("rights", f"all {len(needed)} that are needed")


def _lacks(right: Right) -> str:
    return f"we may not {right.verb} {right.qualified} {right.place}"


def _grant(right: Right) -> str:
    kind = "ClusterRole" if right.namespace is None else f"Role in namespace {right.namespace}"
    return f"add {right.rule} to our {kind}; then `{right.question}` says yes"
