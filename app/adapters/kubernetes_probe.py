"""One look at an API server, for `vmscaler doctor`: version, clock, resources, our rights."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from app.adapters.kubernetes_api import ApiServer
from app.errors import PeerRefused
from app.ports.probes import ClusterFacts
from app.protocols.kubernetes_rights import Right
from app.protocols.printable import printable

CALL_S = 3.0
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class KubernetesLook:
    """The `ClusterProbe` of one API server."""

    def __init__(self, api: ApiServer) -> None:
        """Nothing connects yet."""
        self._api = api

    def look(self) -> ClusterFacts:
        """See `ClusterProbe.look`."""
        answer = self._api.call("GET", "/version", timeout_s=CALL_S)
        now = time.time()
        return ClusterFacts(
            printable(str(answer.get("gitVersion") or "unknown"), 40), _offset_ms(self._api.date, now)
        )

    def has_resource(self, group: str, version: str, resource: str) -> bool:
        """See `ClusterProbe.has_resource`."""
        try:
            answer = self._api.call("GET", f"/apis/{group}/{version}", timeout_s=CALL_S)
        except PeerRefused as err:
            if err.code == 404:
                return False
            raise
        served = answer.get("resources")
        return isinstance(served, list) and any(
            isinstance(each, dict) and each.get("name") == resource for each in served
        )

    def is_allowed(self, right: Right) -> bool:
        """See `ClusterProbe.is_allowed`."""
        answer = self._api.call("POST", REVIEWS, body=right.review(), timeout_s=CALL_S)
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is True


def _offset_ms(date: str | None, now: float) -> int | None:
    """The server's clock less ours; the middle of the second that it tells."""
    if date is None:
        return None
    try:
        told = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    return round((told + 0.5 - now) * 1000)
