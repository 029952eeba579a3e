"""The rights at the API server that a worker uses, by its configuration; `compose/kubernetes` grants them."""

from __future__ import annotations

from app.bootstrap.leases import lease_namespace
from app.config import Settings
from app.protocols.kubernetes_rights import Right
from app.protocols.virtual_machine import GROUP, PLURAL


def needed_rights(settings: Settings) -> list[Right]:
    """Those without which something does not work."""
    found = []
    if settings.platform.kind == "neonvm":
        found += [
            Right(verb, GROUP, PLURAL, place)
            for place in _places(settings)
            for verb in ("get", "list", "watch", "patch")
        ]
        pods = settings.kubernetes.scheduler_namespace
        found += [Right(verb, "", "pods", pods) for verb in ("list", "watch")]
    if settings.ownership.leases == "kubernetes":
        place = lease_namespace(settings)
        verbs = ("get", "list", "watch", "create", "update")
        found += [Right(verb, "coordination.k8s.io", "leases", place) for verb in verbs]
    if settings.ownership.services:
        place = lease_namespace(settings)
        for group, resource in (("", "services"), ("discovery.k8s.io", "endpointslices")):
            found += [Right(verb, group, resource, place) for verb in ("list", "create", "update")]
    return found


def check_credentials(settings: Settings) -> None:
    """Stop a process that could never talk to the API server that it needs, before it takes any VM.

    Raises:
        ConfigurationError: the kubeconfig, or the pod's service account, can't be loaded.
    """
    if needed_rights(settings):
        from app.bootstrap.api_server import build_api_server

        build_api_server(settings).check()


def useful_rights(settings: Settings) -> list[Right]:
    """Those without which less is told."""
    if settings.platform.kind != "neonvm":
        return []
    return [Right("create", "", "events", place) for place in _places(settings)]


def _places(settings: Settings) -> tuple[str | None, ...]:
    """The namespaces of the VMs; None: all."""
    own = (settings.platform.namespace,)
    return settings.kubernetes.namespaces or own
