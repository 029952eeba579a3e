"""Two real workers whose leases are in an API server: shared, counted, killed, cut off, handed over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.bootstrap.reading import build_inspection
from app.bootstrap.stores import Stores
from app.config import load_settings
from tests.celery_process import QUICK, CeleryProcess, write_config
from tests.fakes.kube_server import KubeServer
from tests.fleet_process import until
from tests.tcp_proxy import ProxyLoop, TcpProxy

BUCKETS = 4
NAMESPACE = "vmscaler"


class Fleet:
    """Redis, an API server double behind a proxy, and two workers; `close` ends all but Redis."""

    def __init__(self, redis: EmbeddedRedis, directory: Path) -> None:
        self.directory = directory
        self.server = KubeServer()
        self.loop = ProxyLoop()
        self.proxy = TcpProxy(self.loop, ("127.0.0.1", self.server.port))
        kubeconfig = self.server.kubeconfig(
            str(directory / "kubeconfig"), server=f"http://127.0.0.1:{self.proxy.port}"
        )
        self.config = write_config(
            directory / "config.json",
            {"url": redis.url},
            ownership={**QUICK["ownership"], "leases": "kubernetes"},
            kubernetes={"kubeconfig": kubeconfig, "leaseNamespace": NAMESPACE},
        )
        self.settings = load_settings(str(self.config), {})
        self.stores = Stores(self.settings)
        self.workers = {name: self.start(name) for name in ("worker1", "worker2")}

    def start(self, name: str) -> CeleryProcess:
        return CeleryProcess.worker(self.config, self.directory, name)

    def leases(self) -> dict[str, dict[str, Any]]:
        """By name, as they are."""
        with self.server.store.changed:
            return {key[2]: item for key, item in self.server.store.objects.items() if key[0] == "leases"}

    def shares(self) -> Counter[str]:
        """How many leases each worker's name has, as the objects say."""
        identities = [str(item["spec"]["holderIdentity"]) for item in self.leases().values()]
        return Counter(identity.partition("_")[0] for identity in identities)

    def tokens(self) -> dict[str, int]:
        found = self.leases().items()
        return {name: int(item["metadata"]["annotations"]["vmscaler/token"]) for name, item in found}

    def versions(self) -> dict[str, str]:
        return {name: str(item["metadata"]["resourceVersion"]) for name, item in self.leases().items()}

    def told(self, *parts: str) -> bool:
        """Whether a problem that `vmscaler status` shows has all these parts."""
        problems = build_inspection(self.settings).fleet_view().problems
        return any(all(part in problem.text for part in parts) for problem in problems)

    def ask(self, *command: str) -> str:
        """What `vmscaler` prints."""
        done = subprocess.run(
            [sys.executable, "-m", "app.main", *command],
            env={**os.environ, "CONFIG_PATH": str(self.config)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout + done.stderr

    def close(self) -> None:
        for worker in self.workers.values():
            worker.stop(signal.SIGKILL)
        self.proxy.close()
        self.loop.close()
        self.server.close()


@pytest.fixture(scope="module")
def fleet(module_redis: EmbeddedRedis) -> Iterator[Fleet]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    found = Fleet(module_redis, directory)
    try:
        until(lambda: found.shares() == {"worker1": 2, "worker2": 2}, "both workers hold their share")
        yield found
    finally:
        found.close()
        shutil.rmtree(directory)


@pytest.mark.timeout(300)
def test_without_the_api_server_work_stops_and_says_why_and_comes_back_by_itself(fleet: Fleet) -> None:
    fleet.proxy.drop()
    for worker in fleet.workers.values():
        worker.wait_for("lease lost", times=2)
    until(lambda: fleet.told("gave no answer", "Kubernetes API server"), "the workers say what is wrong")
    assert fleet.told("who holds which bucket can't be read"), "and so does who looks"
    fleet.proxy.reset()
    until(lambda: fleet.shares() == {"worker1": 2, "worker2": 2}, "both hold their share again")
    for worker in fleet.workers.values():
        worker.wait_for("leases are renewed again")


@pytest.mark.timeout(300)
def test_an_object_that_cannot_be_read_costs_its_bucket_and_is_named(fleet: Fleet) -> None:
    bad = sorted(fleet.leases())[0]
    token = fleet.tokens()[bad]
    item = fleet.server.store.get("leases", NAMESPACE, bad)
    item["metadata"]["annotations"]["vmscaler/token"] = "rubbish"
    fleet.server.store.put("leases", item)
    until(lambda: fleet.told(f"Lease {NAMESPACE}/{bad}", "vmscaler/token"), "its name and field are told")
    before = fleet.versions()
    until(lambda: len(fleet.versions().items() - before.items()) == BUCKETS - 1, "the others are renewed")
    assert fleet.versions()[bad] == before[bad], "nobody overwrites it"
    assert f"{bad}  (cannot be read)" in fleet.ask("leases")
    item = fleet.server.store.get("leases", NAMESPACE, bad)
    item["metadata"]["annotations"]["vmscaler/token"] = "5"
    fleet.server.store.put("leases", item)
    until(lambda: fleet.shares() == {"worker1": 2, "worker2": 2}, "repaired, it is taken")
    until(lambda: fleet.tokens()[bad] > token, "its token goes on from where the fence is")


@pytest.mark.timeout(300)
def test_what_leases_in_an_api_server_cost_and_who_takes_over_when_one_is_killed(fleet: Fleet) -> None:
    view = fleet.stores.leases.view()
    assert all(row.holder is not None and row.remaining_ms > 0 for row in view.leases.values())
    assert "4 of 4 buckets held" in fleet.ask("leases")

    # Steady: one request for each bucket and renewal, and no other but for a watch begun anew every 40 s.
    before, begun = fleet.server.seen.copy(), time.monotonic()
    time.sleep(4)
    made, took_s = fleet.server.seen - before, time.monotonic() - begun
    assert set(made) - {("watch", "leases")} == {("update", "leases")}
    assert made["update", "leases"] <= BUCKETS * (took_s / QUICK["ownership"]["renewEverySeconds"] + 1)
    assert made["watch", "leases"] <= 2

    tokens = fleet.tokens()
    fleet.workers["worker1"].process.kill()
    until(lambda: fleet.shares() == {"worker2": 4}, "the other takes over")
    assert sum(fleet.tokens()[name] > token for name, token in tokens.items()) == 2
    assert all(fleet.tokens()[name] >= token for name, token in tokens.items())
    transitions = [item["spec"]["leaseTransitions"] for item in fleet.leases().values()]
    assert sorted(transitions)[-2:] >= [2, 2]

    # A clean shutdown lets go at once: nobody is named any more, and the tokens stay.
    fleet.workers["worker2"].stop()
    assert fleet.shares() == {"": 4}
    assert all("vmscaler/agent" not in item["metadata"]["annotations"] for item in fleet.leases().values())
    assert "0 of 4 buckets held" in fleet.ask("leases")
