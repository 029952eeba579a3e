"""docs/migrate.md, followed command by command on the API server double, with a stand-in for the Go agent."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.adapters.embedded_redis import EmbeddedRedis
from app.cli.root import run
from app.protocols.managed_fields import OUR_MANAGER
from app.protocols.quantity import parse_milli_cpu
from tests.celery_process import QUICK, CeleryProcess
from tests.fakes.kube_store import ApiError
from tests.fakes.neonvm_cluster import ENABLED, VMS, NeonvmCluster, vm_object
from tests.fleet_process import until
from tests.neonvm_world import Pages, Servers

ROOT = Path(__file__).parents[2]
GO_AGENT = "autoscaler-agent"
NAMESPACE = "databases"
EXEC = "kubectl -n vmscaler exec deploy/vmscaler-worker -- vmscaler "


class GoAgent:
    """Gives each VM that has its label 2 CPUs, again and again, as long as it runs."""

    def __init__(self, cluster: NeonvmCluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        store = self._cluster.store
        while not self._stop.wait(0.2):
            for (resource, namespace, name), item in list(store.objects.items()):
                labels = item["metadata"].get("labels", {})
                if resource != VMS or labels.get(ENABLED) != "true":
                    continue
                if item["spec"]["guest"]["cpus"]["use"] != 2:
                    operation = {"op": "replace", "path": "/spec/guest/cpus/use", "value": 2}
                    with suppress(ApiError):
                        store.patch(VMS, namespace, name, [operation], manager=GO_AGENT)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)


class Page:
    """The commands of a page, a block after the other."""

    def __init__(self, path: Path) -> None:
        self._blocks = re.findall(r"^```bash\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)

    def next(self, beginning: str) -> str:
        """The next block, which must be the one that begins so."""
        block: str = self._blocks.pop(0)
        assert block.startswith(beginning), f"the page goes on with: {block}"
        return block.strip()

    @property
    def is_done(self) -> bool:
        return not self._blocks


class Cluster:
    """The double with two VMs, whoever runs on it, and a shell whose kubectl is a few lines here."""

    def __init__(self, redis: EmbeddedRedis, directory: Path) -> None:
        self._redis_url, self._directory = redis.url, directory
        self.double = NeonvmCluster()
        self.scheduler = Pages("127.0.4.1")
        first = Servers("127.0.4.2", 0, 0)
        self.servers = {"db-1": first, "db-2": Servers("127.0.4.3", first.pages.port, first.guest.port)}
        self._put_scheduler()
        for name, servers in self.servers.items():
            item = vm_object(name, NAMESPACE, pod_ip=servers.host)
            item["spec"]["guest"]["memorySlots"] = {"min": 4, "max": 4, "use": 4}
            self.double.store.put(VMS, item)
        self.agent = GoAgent(self.double)
        self._processes: list[CeleryProcess] = []
        self.applied: dict[str, Any] = {}
        self.write_agent_config()
        shutil.copytree(ROOT / "compose" / "kubernetes", directory / "compose" / "kubernetes")

    def _put_scheduler(self) -> None:
        metadata = {"namespace": "kube-system", "name": "s", "labels": {"name": "autoscale-scheduler"}}
        status = {"podIP": "127.0.4.1", "conditions": [{"type": "Ready", "status": "True"}]}
        self.double.store.put("pods", {"metadata": metadata, "status": status})

    def write_agent_config(self) -> None:
        """A file such as the Go agent has."""
        first = self.servers["db-1"]
        config = {
            "scaling": {
                "requestTimeoutSeconds": 10,
                "defaultConfig": {"loadAverageFractionTarget": 0.9, "memoryUsageFractionTarget": 0.75},
            },
            "monitor": {"serverPort": first.guest.port, "responseTimeoutSeconds": 5},
            "metrics": {
                "port": first.pages.port,
                "loadMetricPrefix": "node_",
                "requestTimeoutSeconds": 2,
                "secondsBetweenRequests": 0.5,
            },
            "scheduler": {"schedulerName": "autoscale-scheduler", "requestPort": self.scheduler.port},
            "billing": {"url": "http://127.0.0.1:1", "cpuMetricName": "effective_compute_seconds"},
            "dumpState": {"port": 10300, "timeoutSeconds": 5},
        }
        (self._directory / "agent-config.json").write_text(json.dumps(config))

    # --- commands -----------------------------------------------------------------------------------------

    def run(self, command: str) -> str:
        """Run one block; what it has written."""
        if command.startswith(EXEC):
            return self._vmscaler(shlex.split(command.removeprefix(EXEC)))
        if command.startswith("kubectl "):
            self._kubectl(shlex.split(command)[1:])
            return ""
        return self._shell(command)

    def _shell(self, command: str) -> str:
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-euc", command],
            cwd=self._directory,
            env={**os.environ, "PATH": path},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    def _vmscaler(self, arguments: list[str]) -> str:
        """As in a worker's pod: with its configuration, and its exit status must be 0."""
        written = io.StringIO()
        with redirect_stdout(written):
            status = run(["--config", str(self._config), *arguments])
        assert status == 0, written.getvalue()
        return written.getvalue()

    def _kubectl(self, arguments: list[str]) -> None:
        """The forms that the page has, and no other."""
        match arguments:
            case ["apply", "-k", folder]:
                self._apply(self._directory / folder)
            case ["-n", namespace, "label", "virtualmachines", name, "--overwrite", *labels]:
                self._label([(namespace, name)], labels)
            case ["label", "virtualmachines", "--all", "-A", "--overwrite", *labels]:
                self._label([key[1:] for key in self.double.store.objects if key[0] == VMS], labels)
            case ["-n", "kube-system", "delete", "daemonset", "autoscaler-agent"]:
                self.agent.close()
            case _:
                raise AssertionError(f"the page has a form that this test does not know: {arguments}")

    def _label(self, names: list[tuple[str, str]], labels: list[str]) -> None:
        for namespace, name in names:
            with self.double.store.changed:
                old = self.double.store.get(VMS, namespace, name)["metadata"]["labels"]
                new = {**old, **dict(label.split("=") for label in labels)}
                operation = {"op": "replace", "path": "/metadata/labels", "value": new}
                self.double.store.patch(VMS, namespace, name, [operation], manager="kubectl-label")

    def _apply(self, folder: Path) -> None:
        """Start, or replace, what the overlay's configuration says, with quick times and ports of its own."""
        assert (folder / "kustomization.yaml").is_file()
        self.applied = yaml.safe_load((folder / "vmscaler.yaml").read_text())
        here = {
            **self.applied,
            "redis": {"url": self._redis_url},
            "kubernetes": {"kubeconfig": self.double.server.kubeconfig(str(self._directory / "kube"))},
            "ownership": {**QUICK["ownership"], "buckets": 4},
            "scaling": {
                **self.applied["scaling"],
                "applyTimeoutSeconds": 2.0,
                "retryFailedRequestSeconds": 1.0,
            },
            "web": {"port": 0},
            "dumpState": {"port": 0},
        }
        self._config.write_text(json.dumps(here))
        self.stop_processes()
        self._processes = [
            CeleryProcess.worker(self._config, self._directory),
            CeleryProcess.beat(self._config, self._directory),
        ]

    @property
    def _config(self) -> Path:
        return self._directory / "pod.json"

    # --- what is seen -------------------------------------------------------------------------------------

    def cpus(self, name: str) -> int:
        use = self.double.store.get(VMS, NAMESPACE, name)["spec"]["guest"]["cpus"]["use"]
        return parse_milli_cpu(use)

    def patches(self, name: str) -> int:
        """How often vmscaler has patched it; the stand-in does not come over the network."""
        uid = self.double.store.get(VMS, NAMESPACE, name)["metadata"]["uid"]
        return sum(patch[0]["value"] == uid for patch in self.double.server.patches)

    def managers(self, name: str) -> set[str]:
        item = self.double.store.get(VMS, NAMESPACE, name)
        return {entry["manager"] for entry in item["metadata"].get("managedFields", [])}

    def polled(self, name: str, more: int = 4) -> None:
        """Wait for so many more polls: what was to follow from the last ones has begun."""
        before = self.servers[name].pages.gets
        until(lambda: self.servers[name].pages.gets >= before + more, f"{name} is polled")

    def stop_processes(self, number: int = signal.SIGTERM) -> None:
        for process in self._processes:
            process.process.send_signal(number)
        for process in self._processes:
            process.stop(number)
        self._processes = []

    def close(self) -> None:
        self.stop_processes(signal.SIGKILL)
        self.agent.close()
        self.double.close()
        self.scheduler.close()
        for servers in self.servers.values():
            servers.close()


@pytest.fixture
def cluster(own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    monkeypatch.setenv("K8S_POD_IP", "127.0.0.1")
    found = Cluster(own_redis, directory)
    try:
        yield found
    finally:
        found.close()
        shutil.rmtree(directory)


def test_the_page_followed_word_for_word_does_what_it_says(cluster: Cluster) -> None:
    page = Page(ROOT / "docs" / "migrate.md")

    def follow(beginning: str) -> str:
        return cluster.run(page.next(beginning))

    def shows(command: str, *wanted: str) -> str:
        """A reading command of the page, repeated until what it promises is there."""
        text: list[str] = []
        block = page.next(EXEC + command)

        def is_there() -> bool:
            text.append(cluster.run(block))
            return all(each in text[-1] for each in wanted)

        try:
            until(is_there, f"{block} shows {wanted}")
        except AssertionError:
            pytest.fail(f"{block} does not show {wanted}: {text[-1]}")
        return text[-1]

    until(lambda: cluster.cpus("db-1") == cluster.cpus("db-2") == 2000, "the Go agent scales them")
    follow("vmscaler config import")
    follow("awk")
    follow("kubectl apply")
    assert "billing" not in cluster.applied
    assert cluster.applied["metrics"]["secondsBetweenRequests"] == 0.5, "the agent's own value"

    cluster.polled("db-1")
    assert "problem" not in shows("doctor", "metrics of databases/db-1: load 0.90")
    listed = shows("vm list", "databases/db-1", "databases/db-2", "2.0 → 1.0")
    assert listed.count("observed") == 2
    shows("explain databases/db-1", "observe")
    cluster.polled("db-1")
    assert cluster.patches("db-1") == cluster.patches("db-2") == 0
    assert cluster.scheduler.asked.total() == 0
    assert cluster.managers("db-1").isdisjoint({OUR_MANAGER})

    follow("kubectl -n databases label virtualmachines db-1")
    until(lambda: cluster.cpus("db-1") == 1000, "vmscaler gives it what its load asks for")
    shows("events databases/db-1", "downscale")
    assert cluster.patches("db-1") == 1
    cluster.polled("db-1")
    assert (cluster.cpus("db-1"), cluster.cpus("db-2"), cluster.patches("db-2")) == (1000, 2000, 0)

    follow("kubectl -n databases label virtualmachines db-1")
    until(lambda: cluster.cpus("db-1") == 2000, "the Go agent has it again")
    cluster.polled("db-1")
    assert (cluster.cpus("db-1"), cluster.patches("db-1")) == (2000, 1)

    follow("kubectl -n databases label virtualmachines db-2")
    shows("events databases/db-2", "other writer", GO_AGENT)
    follow("kubectl -n databases label virtualmachines db-2")
    until(lambda: cluster.cpus("db-2") == 1000, "one side has it")
    cluster.polled("db-2")
    assert cluster.cpus("db-2") == 1000

    follow("kubectl label virtualmachines --all -A")
    until(lambda: cluster.cpus("db-1") == 1000, "vmscaler has them all")
    follow("kubectl -n kube-system delete daemonset")
    follow("awk")
    follow("kubectl apply")
    assert cluster.applied["billing"]["url"] == "http://127.0.0.1:1"
    cluster.servers["db-1"].pages.load = 2.7
    until(lambda: cluster.cpus("db-1") == 3000, "the new workers go on")
    assert page.is_done
