"""The paths that the API server double knows."""

from __future__ import annotations

from urllib.parse import unquote

API_PATHS = (
    "/apis/vm.neon.tech/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/discovery.k8s.io/v1",
    "/apis/authorization.k8s.io/v1",
    "/api/v1",
)


class NoApi(Exception):
    """A path of none of them."""


def parse_path(path: str) -> tuple[str, str, str, str, str]:
    """(group, namespace, resource, name, subresource); '' for what it has not.

    Raises:
        NoApi: there is no such group.
    """
    for base in API_PATHS:
        if path.startswith(base + "/"):
            parts = [unquote(part) for part in path[len(base) + 1 :].split("/")]
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            name = parts[1] if len(parts) > 1 else ""
            group = base.split("/")[2] if base.startswith("/apis/") else ""
            return group, namespace, parts[0], name, parts[2] if len(parts) > 2 else ""
    raise NoApi(path)
