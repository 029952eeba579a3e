"""A cluster for a real worker: VMs on the API server double, each with servers at an address of its own.

All of a kind listen on one port, as in a cluster: metrics pages whose load a test sets, guest daemons as
monitors, schedulers that grant all.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from app.adapters.embedded_redis import EmbeddedRedis
from app.bootstrap.stores import Stores
from app.config import Settings, load_settings
from app.core.resources import Resources, resources
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.protocols.quantity import parse_milli_cpu
from tests.celery_process import CeleryProcess, write_config
from tests.fakes.guest_on_loop import GuestOnLoop
from tests.fakes.kube_store import Json
from tests.fakes.neonvm_cluster import VMS, NeonvmCluster, vm_object
from tests.fleet_process import until

SCHEDULER = "autoscale-scheduler"
GIB = 1024**3


class Pages:
    """Answers GET with a metrics page and POST with a permit, at one address.

    Attributes:
        load: of the page, in CPUs.
        gets: pages served.
        asked: names of pods that permits were asked for.
        mute: pods whose questions are never answered.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        self.load = 0.9
        self.gets = 0
        self.asked: Counter[str] = Counter()
        self.mute: set[str] = set()
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: a test's output is its own."""

            def do_GET(self) -> None:
                outer.gets += 1
                self._answer(outer._page())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = body["pod"]["name"]
                outer.asked[name] += 1
                if name in outer.mute:
                    outer._closing.wait(60)
                unit = {"vCPUs": "250m", "mem": 1}
                self._answer(json.dumps({"permit": body["resources"], "resourceUnit": unit}))

            def _answer(self, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._http = ThreadingHTTPServer((host, port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def _page(self) -> str:
        values = {"load1": self.load, "load5": self.load}
        values |= {"memory_MemTotal_bytes": 4 * GIB, "memory_MemAvailable_bytes": 3.5 * GIB}
        return "".join(f"node_{name} {value}\n" for name, value in values.items())

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()


class Servers:
    """What listens in one VM's pod."""

    def __init__(self, host: str, metrics_port: int, monitor_port: int) -> None:
        self.host = host
        self.pages = Pages(host, metrics_port)
        self.guest = GuestOnLoop(at=(host, monitor_port))

    def close(self) -> None:
        self.pages.close()
        self.guest.close()


def polls(servers: Servers, more: int = 3) -> None:
    """Wait for as many more polls: what was to follow from the last ones has begun."""
    before = servers.pages.gets
    until(lambda: servers.pages.gets >= before + more, "it is polled")


class StoredVms:
    """What a worker has written of the VMs in namespace `sim`."""

    def __init__(self, settings: Settings) -> None:
        self._stores = Stores(settings)

    def record(self, name: str) -> dict[str, Any] | None:
        """Of a VM that is there; one that is gone can still be looked at elsewhere."""
        raw = self._stores.states.load(self._bucket(name)).get(VmKey(f"sim/{name}"))
        return None if raw is None else dict(json.loads(raw))

    def trail(self, name: str) -> list[dict[str, Any]]:
        """Entries of its audit trail, oldest first."""
        entries = self._stores.states.events(self._bucket(name), VmKey(f"sim/{name}"), 1000)
        return [json.loads(entry) for _, entry in entries]

    def kinds(self, name: str) -> list[str]:
        return [str(entry["kind"]) for entry in self.trail(name)]

    def _bucket(self, name: str) -> BucketName:
        return BucketName(self._stores.ring.owner(f"sim/{name}"))


class NeonvmWorld(StoredVms):
    """The cluster, a worker and a beat; `close` ends them all.

    Attributes:
        cluster: the double.
        scheduler: of the pod that is in charge at first.
    """

    def __init__(self, redis: EmbeddedRedis, directory: Path) -> None:
        self.cluster = NeonvmCluster()
        self._made = 0
        self._servers: list[Servers] = []
        first = Servers("127.0.1.1", 0, 0)
        self._servers.append(first)
        self._ports = first.pages.port, first.guest.port
        self.scheduler = Pages("127.0.2.1")
        self.put_scheduler("s1", "127.0.2.1")
        config = write_config(
            directory / "config.json",
            {"url": redis.url},
            platform={"kind": "neonvm"},
            kubernetes={"kubeconfig": self.cluster.server.kubeconfig(str(directory / "kubeconfig"))},
            metrics={"secondsBetweenRequests": 0.5, "requestTimeoutSeconds": 2.0, "port": self._ports[0]},
            monitor={"serverPort": self._ports[1], "connectionRetryMinWaitSeconds": 0.2},
            scheduler={"requestPort": self.scheduler.port, "requestTimeoutSeconds": 2.0},
            scaling={"applyTimeoutSeconds": 2.0, "retryFailedRequestSeconds": 1.0},
        )
        self.settings: Settings = load_settings(str(config), {"K8S_POD_IP": "127.0.0.1"})
        super().__init__(self.settings)
        self.worker = CeleryProcess.worker(config, directory)
        self._beat = CeleryProcess.beat(config, directory)

    def close(self) -> None:
        for process in (self.worker, self._beat):
            process.stop()
        self.cluster.close()
        self.scheduler.close()
        for servers in self._servers:
            servers.close()

    def put_scheduler(self, name: str, ip: str) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        metadata = {
            "namespace": "kube-system",
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"name": SCHEDULER},
        }
        self.cluster.store.put("pods", {"metadata": metadata, "status": {"podIP": ip, "conditions": ready}})

    def open_pod(self) -> Servers:
        """Servers at a new address."""
        self._made += 1
        found = Servers(f"127.0.1.{self._made + 1}", *self._ports)
        self._servers.append(found)
        return found

    def add(self, name: str, *, load: float = 0.9, **guest: Any) -> Servers:
        """A VM of 1 CPU and 4 slots, which at a load of 0.9 is as it should be."""
        servers = self.open_pod()
        servers.pages.load = load
        item = vm_object(name, pod_ip=servers.host)
        item["spec"]["guest"]["memorySlots"]["min"] = 4
        item["spec"]["guest"] |= guest
        self.cluster.store.put(VMS, item)
        return servers

    # --- what is seen from outside -------------------------------------------------------------------------

    def item(self, name: str) -> Json:
        return self.cluster.store.get(VMS, "sim", name)

    def use(self, name: str) -> Resources:
        guest = self.item(name)["spec"]["guest"]
        return resources(parse_milli_cpu(guest["cpus"]["use"]), guest["memorySlots"]["use"])

    def patches(self, name: str) -> list[Any]:
        """Patches of this VM, by its uid, in the order in which they came."""
        uid = self.item(name)["metadata"]["uid"]
        return [patch for patch in self.cluster.server.patches if patch[0]["value"] == uid]
