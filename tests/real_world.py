"""A worker and a beat on a real API server, leases included; VMs are made with kubectl, pods are here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.adapters.embedded_redis import EmbeddedRedis
from app.config import Settings, load_settings
from app.core.resources import Resources, resources
from app.protocols.quantity import parse_milli_cpu
from tests.celery_process import CeleryProcess, write_config
from tests.fakes.neonvm_cluster import vm_object
from tests.manifests import copy_with_secrets
from tests.neonvm_world import SCHEDULER, Pages, Servers, StoredVms
from tests.real_apiserver import RealApiServer

ACCOUNT = "system:serviceaccount:vmscaler:vmscaler-worker"
LEASE_NAMESPACE, BUCKETS = "vmscaler", 4
POD_IP = "10.1.2.3"
"""The worker's, for others: an EndpointSlice may lead to no address of loopback."""
SCHEDULER_HOST = "127.0.4.1"


class RealWorld(StoredVms):
    """The worker has the rights that compose/kubernetes gives it, and its token from a file.

    Attributes:
        scheduler: of the pod that is in charge.
    """

    def __init__(self, server: RealApiServer, redis: EmbeddedRedis, directory: Path) -> None:
        self._server = server
        self._servers = [Servers("127.0.3.1", 0, 0)]
        self._ports = self._servers[0].pages.port, self._servers[0].guest.port
        self.scheduler = Pages(SCHEDULER_HOST)
        self._deploy(directory)
        self.token_file = directory / "token"
        self.renew_token()
        kubeconfig = server.kubeconfig(str(directory / "kubeconfig"), tokenFile=str(self.token_file))
        config = write_config(
            directory / "config.json",
            {"url": redis.url},
            platform={"kind": "neonvm"},
            kubernetes={"kubeconfig": kubeconfig, "leaseNamespace": LEASE_NAMESPACE},
            ownership={
                "leases": "kubernetes",
                "services": True,
                "buckets": BUCKETS,
                "leaseDurationSeconds": 5.0,
                "renewEverySeconds": 1.0,
                "giveUpAfterSeconds": 3.0,
            },
            metrics={
                "secondsBetweenRequests": 0.5,
                "requestTimeoutSeconds": 2.0,
                "port": self._ports[0],
            },
            monitor={"serverPort": self._ports[1], "connectionRetryMinWaitSeconds": 0.2},
            scheduler={"requestPort": self.scheduler.port, "requestTimeoutSeconds": 2.0},
            scaling={"applyTimeoutSeconds": 4.0, "retryFailedRequestSeconds": 1.0},
        )
        self.settings: Settings = load_settings(str(config), {"K8S_POD_IP": POD_IP})
        super().__init__(self.settings)
        self.worker = CeleryProcess.worker(config, directory)
        self._beat = CeleryProcess.beat(config, directory)

    def _deploy(self, directory: Path) -> None:
        """The roles of the manifests, and the scheduler's pod."""
        kubernetes = copy_with_secrets(directory)
        parts = ("base/namespace", "base/rbac", "components/leases/rbac", "components/bucket-services/rbac")
        for name in parts:
            self._server.kubectl("apply", "-f", str(kubernetes / f"{name}.yaml"))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "scheduler", "namespace": "kube-system", "labels": {"name": SCHEDULER}},
            "spec": {"containers": [{"name": "scheduler", "image": "none"}]},
        }
        self._server.kubectl("apply", "-f", "-", text=json.dumps(pod))
        ready = [{"type": "Ready", "status": "True"}]
        self.set_status(
            "pod/scheduler", {"podIP": SCHEDULER_HOST, "conditions": ready}, namespace="kube-system"
        )

    def renew_token(self) -> None:
        """As the kubelet does: a new token in the file."""
        fresh = self.token_file.with_suffix(".new")
        fresh.write_text(self._server.account_token("vmscaler", "vmscaler-worker"))
        fresh.rename(self.token_file)

    def close(self) -> None:
        for process in (self.worker, self._beat):
            process.stop()
        self.scheduler.close()
        for servers in self._servers:
            servers.close()

    # --- what an operator and NeonVM's controller do --------------------------------------------------------

    def add(self, name: str, *, load: float = 0.9, annotations: dict[str, str] | None = None) -> Servers:
        """A running VM of 1 CPU and 4 slots, which at a load of 0.9 is as it should be."""
        servers = Servers(f"127.0.3.{len(self._servers) + 1}", *self._ports)
        servers.pages.load = load
        self._servers.append(servers)
        item = vm_object(name, pod_ip=servers.host)
        item["spec"]["guest"]["memorySlots"]["min"] = 4
        item["metadata"]["annotations"] = annotations or {}
        status = item.pop("status")
        self._server.kubectl("create", "-f", "-", text=json.dumps(item))
        self.set_status(f"virtualmachines/{name}", status)
        return servers

    def set_status(self, item: str, status: dict[str, Any], namespace: str = "sim") -> None:
        """By the status subresource."""
        patch = json.dumps({"status": status})
        self._server.kubectl(
            "patch", item, f"-n={namespace}", "--subresource=status", "--type=merge", f"--patch={patch}"
        )

    def apply(self, name: str) -> None:
        """Let the VM have become what its spec says, as NeonVM's controller does."""
        guest = self.item(name)["spec"]["guest"]
        size = {"cpus": guest["cpus"]["use"], "memorySize": f"{guest['memorySlots']['use']}Gi"}
        self.set_status(f"virtualmachines/{name}", size)

    def is_settled(self, name: str) -> bool:
        """Whether the worker has a record of it, and nothing is under way."""
        found = self.record(name)
        return found is not None and found.get("operation") is None

    def set_use(self, name: str, cpu: int | str) -> None:
        """As another writer."""
        patch = json.dumps({"spec": {"guest": {"cpus": {"use": cpu}}}})
        self._server.kubectl("patch", f"virtualmachines/{name}", "-n=sim", "--type=merge", f"--patch={patch}")

    def kubectl(self, *arguments: str) -> str:
        return self._server.kubectl("-n=sim", *arguments)

    # --- what is seen from outside -------------------------------------------------------------------------

    def item(self, name: str) -> dict[str, Any]:
        return dict(
            json.loads(self.kubectl("get", f"virtualmachines/{name}", "-o=json", "--show-managed-fields"))
        )

    def use(self, name: str) -> Resources:
        guest = self.item(name)["spec"]["guest"]
        return resources(parse_milli_cpu(guest["cpus"]["use"]), guest["memorySlots"]["use"])

    def lease_holders(self) -> list[str]:
        """Of the buckets' leases; "": a free one's."""
        listed = self._server.kubectl("get", "leases", f"-n={LEASE_NAMESPACE}", "-o=json")
        return [str(item["spec"].get("holderIdentity", "")) for item in json.loads(listed)["items"]]

    def bucket_addresses(self) -> dict[str, list[str]]:
        """Where the EndpointSlice of each bucket's Service leads."""
        listed = self._server.kubectl("get", "services,endpointslices", f"-n={LEASE_NAMESPACE}", "-o=json")
        items = json.loads(listed)["items"]
        found = {each["metadata"]["name"]: list[str]() for each in items if each["kind"] == "Service"}
        for each in items:
            if each["kind"] == "EndpointSlice":
                service = each["metadata"]["labels"]["kubernetes.io/service-name"]
                found[service] += [address for end in each["endpoints"] for address in end["addresses"]]
        return found

    def requests(self) -> list[dict[str, Any]]:
        """The worker's, by the API server's audit log."""
        return self._server.requests_of(ACCOUNT)
