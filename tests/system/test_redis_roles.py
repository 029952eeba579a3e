"""A fleet whose processes are users of Redis of their own, over TLS: it scales, and Redis denies nothing."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.celery_process import CeleryProcess, write_config
from tests.fakes.certificates import Certificates, make_certificates
from tests.fleet_process import FleetProcess, until
from tests.freezing_proxy import FreezingProxy
from tests.redis_users import RedisWithUsers, password_of

LOGIN = ("ops", "correct-horse-battery")
NODES = [{"name": f"sim-node-{number}", "cpu": 24, "memory": "36Gi"} for number in (1, 2)]


class Fleet:
    """Everything that a fleet is made of, each process with its own user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificates: Certificates = make_certificates(directory)
        socket_path = directory / "redis.sock"
        self.redis = RedisWithUsers(directory / "redis", {"unixsocket": str(socket_path)})
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates.good.cert, self.certificates.good.key)
        self.door = FreezingProxy(socket_path, tls=context)
        self.sim = FleetProcess("--profile-mix", "spike=1", vms=6)
        (directory / "logins").write_text(":".join(LOGIN) + "\n")
        self.worker = CeleryProcess.worker(self.config("worker"), directory)
        self.processes = [
            self.worker,
            CeleryProcess.beat(self.config("beat"), directory),
            CeleryProcess(self.config("flower"), directory / "flower.log", "flower"),
        ]
        self.scheduler = subprocess.Popen(
            [sys.executable, "-m", "app.main", "scheduler"],
            env=self.environment("scheduler"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def config(self, role: str) -> Path:
        """The configuration of a process of that role."""
        good = self.certificates.good
        section = self.redis.section(role) | {
            "url": f"rediss://{role}@127.0.0.1:{self.door.port}/0",
            "tlsCaFile": str(self.certificates.authority.cert),
        }
        flower: dict[str, Any] = {"port": 0, "authFile": str(self.directory / "logins")}
        flower |= {"tlsCertFile": str(good.cert), "tlsKeyFile": str(good.key)}
        return write_config(
            self.directory / f"{role}.json",
            section,
            platform={"kind": "sim", "url": self.sim.url},
            nodeScheduler={"port": 0, "nodes": NODES},
            flower=flower,
        )

    def environment(self, role: str) -> dict[str, str]:
        return os.environ | {"CONFIG_PATH": str(self.config(role))}

    def ask(self, role: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command, as a user of Redis."""
        command = [sys.executable, "-m", "app.main", *arguments]
        return subprocess.run(
            command, env=self.environment(role), capture_output=True, text=True, timeout=60, check=False
        )

    def upscales(self) -> int:
        """How many were seen in the observed size."""
        found = self.ask("reader", "status", "--json").stdout
        return int(json.loads(found)["counters"].get("upscales", 0)) if found else 0

    def flower(self, path: str, **options: Any) -> requests.Response:
        """One request to Flower's page, over TLS."""
        log = (self.directory / "flower.log").read_text()
        place = log.partition("Visit me at ")[2].split()[0]
        return requests.get(place + path, verify=str(self.certificates.authority.cert), timeout=30, **options)

    def close(self) -> None:
        for process in self.processes:
            process.stop()
        self.scheduler.terminate()
        self.scheduler.wait(30)
        self.sim.stop()
        self.door.close()
        self.redis.close()


@pytest.fixture
def fleet(short_directory: Path) -> Iterator[Fleet]:
    made = Fleet(short_directory)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_a_fleet_of_users_scales_over_tls_and_nothing_that_it_needs_is_denied(fleet: Fleet) -> None:
    until(lambda: fleet.upscales() > 0, "VMs are scaled up")
    until(
        lambda: b"vmscaler.upscale" in fleet.flower("/api/tasks", auth=LOGIN).content,
        "Flower shows the scaling tasks",
    )
    for command in (["vm", "list"], ["leases"], ["agents"], ["events", "sim/web-001"]):
        assert fleet.ask("reader", *command).returncode == 0
    for command in (
        ["pause", "sim/web-001", "--for", "1m"],
        ["resume", "sim/web-001"],
        ["drain", "worker1", "--force"],
        ["drain", "worker1", "--undo"],
    ):
        done = fleet.ask("operator", *command)
        assert done.returncode == 0, done.stderr
    assert fleet.redis.denials() == set()

    assert fleet.ask("reader", "pause", "sim/web-001").returncode == 3
    assert fleet.redis.denials() == {("reader", "hset")}
    _flower_keeps_its_doors_shut(fleet)


def _flower_keeps_its_doors_shut(fleet: Fleet) -> None:
    """Nobody without a login, nobody changes anything, and no password is on any page."""
    for path in ("/", "/tasks", "/broker", "/api/tasks", "/api/workers"):
        assert fleet.flower(path).status_code == 401
        assert fleet.flower(path, auth=("ops", "a wrong password")).status_code == 401
    until(lambda: bool(_workers(fleet)), "a worker answers Flower's questions")
    name = _workers(fleet)[0]
    place = fleet.flower("/", auth=LOGIN).url
    for path in (f"api/worker/shutdown/{name}", "api/task/async-apply/vmscaler.tick"):
        answer = requests.post(
            place + path, verify=str(fleet.certificates.authority.cert), auth=LOGIN, timeout=30
        )
        assert answer.status_code == 403
    text = (fleet.directory / "flower.log").read_text() + fleet.worker.log()
    for path in ("/", f"/worker/{name}", "/api/workers", "/broker"):
        page = fleet.flower(path, auth=LOGIN)
        assert page.status_code == 200
        text += page.text
    assert "autoscaler-bucket-03-of-04" in text
    assert not any(password_of(role) in text for role in ("worker", "beat", "flower"))
    assert fleet.worker.process.poll() is None
    arguments = Path(f"/proc/{fleet.processes[2].process.pid}/cmdline").read_bytes()
    assert LOGIN[1].encode() not in arguments


def _workers(fleet: Fleet) -> list[str]:
    return list(fleet.flower("/api/workers?refresh=1", auth=LOGIN).json())
