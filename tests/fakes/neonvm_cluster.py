"""Simulated NeonVM VMs on the API server double: a controller gives them the size in their spec."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from app.adapters.kubernetes_api import ApiServer
from app.adapters.neonvm_fleet import FleetRules, VmPorts
from app.adapters.platform_neonvm import NeonvmPlatform
from app.core.model import ScalingConfig
from app.errors import InvalidInput
from app.protocols.quantity import parse_bytes, parse_milli_cpu
from app.protocols.virtual_machine import Selection
from tests.fakes.kube_resources import denial
from tests.fakes.kube_server import KubeServer
from tests.fakes.kube_store import ApiError, Json

WEBHOOK = "vvirtualmachine.kb.io"
"""NeonVM's own, which checks that `use` is within bounds."""

VMS = "virtualmachines"
ENABLED = "autoscaling.neon.tech/enabled"
SELECTION = Selection("autoscale-scheduler", ENABLED)


def vm_object(name: str, namespace: str = "sim", *, pod_ip: str = "127.0.0.1") -> Json:
    """A running VM of 1 CPU and 4 slots, of 0.25 to 4 CPUs and 1 to 8 slots."""
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"namespace": namespace, "name": name, "labels": {ENABLED: "true"}, "annotations": {}},
        "spec": {
            "schedulerName": "autoscale-scheduler",
            "guest": {
                "cpus": {"min": "250m", "max": 4, "use": 1},
                "memorySlots": {"min": 1, "max": 8, "use": 4},
                "memorySlotSize": "1Gi",
            },
        },
        "status": {
            "phase": "Running",
            "podName": f"{name}-abc",
            "podIP": pod_ip,
            "node": "node-a",
            "cpus": "1",
            "memorySize": "4Gi",
        },
    }


class NeonvmCluster:
    """The double with VMs on it.

    Attributes:
        is_applying: whether the controller follows the spec.
        refusals: names of VMs whose patches the webhook refuses.
        refusal_code: what it says beside; None: no code of its own.
        held: names of VMs that stay as they are, whatever their spec says.
        without_memory: names of VMs that are given CPUs only.
    """

    def __init__(self, *names: str) -> None:
        self.server = KubeServer()
        self.store = self.server.store
        self.store.validate = self._validate
        self.is_applying = True
        self.refusals: set[str] = set()
        self.refusal_code: int | None = 403
        self.held: set[str] = set()
        self.without_memory: set[str] = set()
        for name in names:
            self.store.put(VMS, vm_object(name))
        self._controller = threading.Thread(target=self._control, daemon=True)
        self._controller.start()

    def platform(self, kubeconfig_path: str, **rules: Any) -> NeonvmPlatform:
        """A platform of its own connections, as each worker has one."""
        api = ApiServer(self.server.kubeconfig(kubeconfig_path))
        ports, targets = VmPorts(9100, 10301, 10302), ScalingConfig(0.9, 0.75)
        monotonic = rules.pop("monotonic", time.monotonic)
        found = FleetRules(rules.pop("selection", SELECTION), targets, ports, **rules)
        return NeonvmPlatform(api, found, monotonic=monotonic)

    def change(self, name: str, path: str, value: Any, namespace: str = "sim") -> Json:
        """Set one field, by dotted path, as another client would; `...` takes it away."""
        with self.store.changed:
            item = self.store.get(VMS, namespace, name)
            *way, last = path.split(".")
            inner = item
            for part in way:
                inner = inner[part]
            if value is ...:
                inner.pop(last)
            else:
                inner[last] = value
            return self.store.put(VMS, item)

    def annotate(self, name: str, **annotations: str) -> Json:
        return self.change(name, "metadata.annotations", annotations)

    def close(self) -> None:
        self.server.close()
        self._controller.join(10)

    def _validate(self, resource: str, item: Json) -> None:
        if resource != VMS:
            return
        guest, name = item["spec"]["guest"], item["metadata"]["name"]
        use, low, high = (parse_milli_cpu(guest["cpus"][each]) for each in ("use", "min", "max"))
        slots = guest["memorySlots"]
        if not low <= use <= high or not slots["min"] <= slots["use"] <= slots["max"]:
            raise denial(WEBHOOK, ".spec.guest: use is out of range")
        if name in self.refusals:
            raise denial(WEBHOOK, "not now", self.refusal_code)

    def _control(self) -> None:
        while not self.server.is_closing:
            with self.store.changed:
                self.store.changed.wait(0.2)
                if self.is_applying:
                    for key in [key for key in self.store.objects if key[0] == VMS]:
                        with suppress(KeyError, InvalidInput, ApiError):
                            self._apply(key)

    def _apply(self, key: tuple[str, str, str]) -> None:
        item, name = self.store.objects[key], key[2]
        if name in self.held:
            return
        guest, status = item["spec"]["guest"], item["status"]
        size = guest["memorySlots"]["use"] * parse_bytes(guest["memorySlotSize"])
        told = parse_milli_cpu(status.get("cpus", 0)), parse_bytes(status.get("memorySize", 0))
        if name in self.without_memory:
            size = told[1]
        if told != (parse_milli_cpu(guest["cpus"]["use"]), size):
            self.store.patch(
                *key,
                [
                    {"op": "add", "path": "/status/cpus", "value": guest["cpus"]["use"]},
                    {"op": "add", "path": "/status/memorySize", "value": str(size)},
                ],
                status=True,
            )
