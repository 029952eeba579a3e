"""Events on VirtualMachine objects, as `kubectl describe` shows them: what is wrong with one.

Needs the right `create` on `events`, and no other: an event's name is made of the VM's uid and the problem,
so that another worker that says the same again is refused by the API server as one that is there already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

from app.adapters.kubernetes_api import ApiServer
from app.errors import PeerRefused
from app.ports.vm import VmKey
from app.protocols.kubernetes_rights import Right, needed
from app.protocols.printable import printable
from app.protocols.virtual_machine import GROUP, VERSION

REASON = "Unreadable"
COMPONENT = "vmscaler"

MAX_MESSAGE = 1_000
"""Characters; the API server takes 1,024."""

_MAX_NAME = 200
"""Of the VM's in the event's, which may have 253 characters."""


class KubernetesEvents:
    """`app.ports.vm_reports.VmReports` over an API server.

    Args:
        uid_of: of the object that can't be read now; None: there is none.
        wall_ms: Unix milliseconds.
        instance: which of several workers says it.
    """

    def __init__(
        self, api: ApiServer, uid_of: Callable[[VmKey], str | None], wall_ms: Callable[[], int], instance: str
    ) -> None:
        self._api = api
        self._uid_of = uid_of
        self._wall_ms = wall_ms
        self._instance = instance

    def warn(self, key: VmKey, problem: str, *, timeout_s: float) -> None:
        """An event of type Warning; one that is there already, or an object that is gone, is no failure.

        Raises:
            PeerError: refused, a missing right is named; or no answer.
        """
        namespace, _, name = key.partition("/")
        uid = self._uid_of(key)
        if uid is None or "?" in (namespace, name):
            return
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            self._api.call("POST", path, timeout_s=timeout_s, body=self._event(namespace, name, uid, problem))
        except PeerRefused as err:
            if err.code == 409:
                return
            if err.code == 403:
                right = needed(("create",), Right("create", "", "events", namespace))
                raise PeerRefused(self._api.peer, f"{err.problem} ({right})", code=403) from err
            raise

    def _event(self, namespace: str, name: str, uid: str, problem: str) -> dict[str, object]:
        said = hashlib.sha256(f"{uid}\n{problem}".encode()).hexdigest()[:16]
        moment = datetime.fromtimestamp(self._wall_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{name[:_MAX_NAME].rstrip('.-')}.{said}"},
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "VirtualMachine",
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "type": "Warning",
            "reason": REASON,
            "message": printable(f"not scaled: {problem}", MAX_MESSAGE),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": printable(self._instance, 128),
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
