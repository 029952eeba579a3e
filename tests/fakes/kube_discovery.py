"""What an API server tells of itself: its version, and the resources of each group."""

from __future__ import annotations

from collections.abc import Collection

from tests.fakes.kube_resources import RESOURCES, ApiError, Json

VERSION: Json = {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}


def discover(path: str, absent: Collection[str]) -> Json | None:
    """The answer at a path of discovery; None: it is none.

    Args:
        absent: resources that are not there, as those of a CRD that was not installed.
    """
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return VERSION
    if len(parts) != 3 or parts[0] != "apis":
        return None
    found = [
        each
        for each in RESOURCES.values()
        if [each.group, each.version] == parts[1:] and each.name not in absent
    ]
    if not found:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "/".join(parts[1:]),
        "resources": [{"name": each.name, "kind": each.kind, "namespaced": True} for each in found],
    }
