"""Two workers of two nodes on one cluster: each scales its own node's VMs alone, with keys of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.bootstrap.stores import Stores
from app.config import load_settings
from app.protocols.quantity import parse_milli_cpu
from tests.celery_process import CeleryProcess, write_config
from tests.fakes.neonvm_cluster import VMS, NeonvmCluster, vm_object
from tests.fleet_process import until
from tests.neonvm_world import Pages, Servers

NODES = ("node-a", "node-b")


class Nodes:
    """A cluster of two nodes with a VM each, and on each node a worker and a beat that are bound to it."""

    def __init__(self, redis: EmbeddedRedis, directory: Path) -> None:
        self.cluster = NeonvmCluster()
        self.scheduler = Pages("127.0.5.1")
        first = Servers("127.0.5.2", 0, 0)
        self.servers = {"a": first, "b": Servers("127.0.5.3", first.pages.port, first.guest.port)}
        metadata = {"namespace": "kube-system", "name": "s", "labels": {"name": "autoscale-scheduler"}}
        status = {"podIP": "127.0.5.1", "conditions": [{"type": "Ready", "status": "True"}]}
        self.cluster.store.put("pods", {"metadata": metadata, "status": status})
        for name, node in zip(self.servers, NODES, strict=True):
            self.put(name, node)
        self.config = write_config(
            directory / "config.json",
            {"url": redis.url},
            platform={"kind": "neonvm", "nodeBound": True},
            kubernetes={"kubeconfig": self.cluster.server.kubeconfig(str(directory / "kube"))},
            metrics={"port": first.pages.port, "secondsBetweenRequests": 0.5},
            monitor={"serverPort": first.guest.port, "connectionRetryMinWaitSeconds": 0.2},
            scheduler={"requestPort": self.scheduler.port},
        )
        self.processes: dict[str, list[CeleryProcess]] = {}
        for node in NODES:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("K8S_POD_IP", "127.0.0.1")
                patch.setenv("K8S_NODE_NAME", node)
                self.processes[node] = [
                    CeleryProcess.worker(self.config, directory, f"worker-{node}"),
                    CeleryProcess.beat(self.config, directory, f"beat-{node}"),
                ]

    def put(self, name: str, node: str) -> None:
        item = vm_object(name, pod_ip=self.servers[name].host)
        item["spec"]["guest"]["memorySlots"] = {"min": 4, "max": 4, "use": 4}
        item["status"]["node"] = node
        self.cluster.store.put(VMS, item)

    def cpus(self, name: str) -> int:
        use = self.cluster.store.get(VMS, "sim", name)["spec"]["guest"]["cpus"]["use"]
        return parse_milli_cpu(use)

    def recorded(self, node: str) -> dict[str, str]:
        """VMs that this node's keys have a record of, and the worker that wrote it."""
        environment = {"K8S_POD_IP": "127.0.0.1", "K8S_NODE_NAME": node}
        stores = Stores(load_settings(str(self.config), environment))
        found = {}
        for bucket in stores.names:
            for key, raw in stores.states.load(bucket).items():
                found[str(key)] = str(json.loads(raw)["worker"])
        return found

    def polled(self, name: str, more: int = 3) -> None:
        before = self.servers[name].pages.gets
        until(lambda: self.servers[name].pages.gets >= before + more, f"{name} is polled")

    def close(self) -> None:
        for process in (each for of_node in self.processes.values() for each in of_node):
            process.stop()
        self.cluster.close()
        self.scheduler.close()
        for servers in self.servers.values():
            servers.close()


@pytest.fixture
def nodes(own_redis: EmbeddedRedis) -> Iterator[Nodes]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    found = Nodes(own_redis, directory)
    try:
        yield found
    finally:
        found.close()
        shutil.rmtree(directory)


def test_each_worker_scales_the_vms_of_its_node_alone(nodes: Nodes) -> None:
    for servers in nodes.servers.values():
        servers.pages.load = 2.7
    until(lambda: nodes.cpus("a") == nodes.cpus("b") == 3000, "both have grown")
    until(lambda: set(nodes.recorded("node-a")) == {"sim/a"}, "node a knows its own VM alone")
    until(lambda: set(nodes.recorded("node-b")) == {"sim/b"}, "and node b its own")
    for node in NODES:
        assert "lease lost" not in nodes.processes[node][0].log()

    nodes.processes["node-b"][0].stop()
    nodes.servers["b"].pages.load = nodes.servers["a"].pages.load = 0.45
    until(lambda: nodes.cpus("a") == 500, "node a goes on")
    nodes.polled("a")
    assert nodes.cpus("b") == 3000, "nobody takes the VMs of a node whose worker is gone"

    nodes.cluster.change("b", "status.node", "node-a")
    until(lambda: nodes.cpus("b") == 500, "a VM that has come to node a is scaled there")
    assert set(nodes.recorded("node-a")) == {"sim/a", "sim/b"}
