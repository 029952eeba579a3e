"""What listing a cluster's VMs costs a worker: `python -m tests.bench.neonvm_list VMS`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from app.adapters.kubernetes_api import ApiServer
from app.adapters.neonvm_fleet import FleetRules, VmPorts
from app.adapters.platform_neonvm import NeonvmPlatform
from app.core.model import ScalingConfig
from tests.fakes.neonvm_cluster import SELECTION, VMS, NeonvmCluster, vm_object


def main(count: int) -> None:
    """Serve `count` VMs from this process and list them in another."""
    cluster = NeonvmCluster()
    cluster.is_applying = False
    for index in range(count):
        cluster.store.put(VMS, vm_object(f"vm-{index}"))
    with tempfile.TemporaryDirectory() as directory:
        path = cluster.server.kubeconfig(os.path.join(directory, "kubeconfig"))
        subprocess.run([sys.executable, "-m", __spec__.name, "--list", path], check=True)
    cluster.close()


def list_once(kubeconfig: str) -> None:
    """Print the CPU, memory and requests of one list."""
    api = ApiServer(kubeconfig)
    rules = FleetRules(SELECTION, ScalingConfig(0.9, 0.75), VmPorts(9100, 10301, 10302))
    platform = NeonvmPlatform(api, rules)
    before = resource.getrusage(resource.RUSAGE_SELF)
    found = platform.changes(None, wait_s=0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    grown_mb = (after.ru_maxrss - before.ru_maxrss) / 1024
    print(f"{len(found.updated)} VMs: {api.requests} requests, {cpu_s:.2f} s CPU, {grown_mb:.0f} MB")
    platform.close()


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        list_once(sys.argv[2])
    else:
        main(int(sys.argv[1]))
