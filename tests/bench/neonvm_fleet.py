"""A cluster's API requests and its start-up: `python -m tests.bench.neonvm_fleet [VMS] [SECONDS]`.

Two workers. The API server double runs in this process; monitors, pages and scheduler in another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from app.adapters.embedded_redis import start_embedded
from tests.bench.fleet import cpu_s
from tests.celery_process import CeleryProcess, write_config
from tests.fakes.kube_store import Json
from tests.fakes.neonvm_cluster import VMS, NeonvmCluster, vm_object

HOSTS = 250
"""Addresses of each 127.1.N/24 that are used."""

PATIENCE_S = 120.0


def main(vms: int, seconds: float) -> None:
    """Start everything, and print what was seen of it."""
    with tempfile.TemporaryDirectory(prefix="vmscaler-bench-") as name:
        directory = Path(name)
        cluster, redis = NeonvmCluster(), start_embedded(directory / "redis")
        peers = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.neonvm_peers", str(vms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert peers.stdout is not None
        fill(cluster, vms)
        config = write(directory, cluster, redis.url, int(peers.stdout.readline()))
        os.environ["K8S_POD_IP"] = "127.0.0.1"
        beat = CeleryProcess.beat(config, directory)
        begun = time.monotonic()
        workers = start_workers(config, directory)
        try:
            wait_for_polls(peers, begun, f"{vms} VMs, two workers, a Redis that is new")
            for worker in workers:
                worker.stop()
            # What was polled before they ended belongs to no later count.
            send(peers, "again")
            begun = time.monotonic()
            workers = start_workers(config, directory)
            wait_for_polls(peers, begun, "both workers started again")
            measure(cluster, peers, {f"worker{n}": w.process.pid for n, w in enumerate(workers, 1)}, seconds)
        finally:
            for process in (*workers, beat):
                process.stop()
            assert peers.stdin is not None
            peers.stdin.close()
            peers.wait(30)
            redis.stop()
            cluster.close()


def start_workers(config: Path, directory: Path) -> list[CeleryProcess]:
    return [CeleryProcess.worker(config, directory, f"worker{number}") for number in (1, 2)]


def wait_for_polls(peers: subprocess.Popen[str], begun: float, what: str) -> None:
    assert peers.stdout is not None
    assert peers.stdout.readline(), "the peers ended"
    print(f"{what}: all polled after {time.monotonic() - begun:.1f} s", flush=True)


def send(peers: subprocess.Popen[str], line: str) -> None:
    assert peers.stdin is not None
    peers.stdin.write(line + "\n")
    peers.stdin.flush()


def fill(cluster: NeonvmCluster, vms: int) -> None:
    for index in range(vms):
        item = vm_object(f"vm-{index:05}", pod_ip=f"127.1.{index // HOSTS}.{index % HOSTS + 1}")
        item["spec"]["guest"]["memorySlots"] = {"min": 4, "max": 4, "use": 4}
        cluster.store.put(VMS, item)
    cluster.store.put("pods", scheduler_pod())


def scheduler_pod() -> Json:
    labels = {"name": "autoscale-scheduler"}
    return {
        "metadata": {"namespace": "kube-system", "name": "s", "uid": "u", "labels": labels},
        "status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def write(directory: Path, cluster: NeonvmCluster, redis_url: str, port: int) -> Path:
    return write_config(
        directory / "config.json",
        {"url": redis_url},
        platform={"kind": "neonvm"},
        kubernetes={"kubeconfig": cluster.server.kubeconfig(str(directory / "kubeconfig"))},
        ownership={},
        metrics={"port": port},
        monitor={"serverPort": port},
        scheduler={"requestPort": port},
    )


def measure(
    cluster: NeonvmCluster, peers: subprocess.Popen[str], pids: dict[str, int], seconds: float
) -> None:
    double = cluster.server
    # Whatever the first permits have led to is over.
    time.sleep(20)
    seen, cpu = Counter(double.seen), cpu_s(pids)
    time.sleep(seconds)
    told = double.seen - seen
    spent = sum(cpu_s(pids).values()) - sum(cpu.values())
    print(f"steady for {seconds:.0f} s: {told.total() / seconds:.2f} API requests/s {dict(told)}")
    print(f"  both workers: {spent / seconds:.0%} of one core")
    seen, before = Counter(double.seen), len(double.patches)
    send(peers, "up")
    raised = sum(1 for key, item in cluster.store.objects.items() if key[0] == VMS and _is_raised(item))
    begun = time.monotonic()
    while _grown(cluster) < raised and time.monotonic() - begun < PATIENCE_S:
        time.sleep(0.1)
    took = time.monotonic() - begun
    time.sleep(5)
    told, patched = double.seen - seen, Counter(patch[0]["value"] for patch in double.patches[before:])
    print(f"{_grown(cluster)} of {raised} VMs grown after {took:.1f} s; {dict(told)}")
    print(f"  most patches of one VM: {max(patched.values())}, VMs patched: {len(patched)}")


def _is_raised(item: Json) -> bool:
    return 1 <= int(item["status"]["podIP"].rpartition(".")[2]) <= 12


def _grown(cluster: NeonvmCluster) -> int:
    with cluster.store.changed:
        items = [item for key, item in cluster.store.objects.items() if key[0] == VMS]
        return sum(1 for item in items if item["spec"]["guest"]["cpus"]["use"] == 3)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 2000, float(sys.argv[2]) if sys.argv[2:] else 60.0)
