"""A real worker and beat on a Redis in trouble: they come back by themselves, and say what was wrong.

Each test ends with ticks that count again: the seq of a bucket grows, which takes beat, the shared queue, a
worker's task and a script. Outages of 30 and 120 s are part of `make chaos`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import until
from tests.freezing_proxy import FreezingProxy
from tests.redis_server import TcpRedis

BUCKET = "autoscaler-bucket-00-of-04"
SECRET = "s3cret-of-this-test"

pytestmark = pytest.mark.timeout(240)


class Fleet:
    """A Redis that asks for a password, a proxy before it, a worker and a beat."""

    def __init__(self, directory: Path) -> None:
        self.server = TcpRedis(directory / "redis", {"requirepass": SECRET})
        self.proxy = FreezingProxy(("127.0.0.1", self.server.port))
        self.password = directory / "password"
        self.password.write_text(SECRET)
        url = f"redis://127.0.0.1:{self.proxy.port}/0"
        self.config = write_config(
            directory / "config.json", {"url": url, "passwordFile": str(self.password)}
        )
        self.worker = CeleryProcess.worker(self.config, directory)
        self.beat = CeleryProcess.beat(self.config, directory)

    @property
    def client(self) -> Any:
        """A client that comes by another way, with the password of now."""
        return self.server.client(password=self.password.read_text() or None, decode_responses=True)

    def seq(self) -> int:
        return int(self.client.hget(f"vmscaler:{{{BUCKET}}}:seq", "seq") or 0)

    def goes_on(self) -> None:
        """Wait until ticks count again, and a worker holds every bucket."""
        before = self.seq()
        until(lambda: self.seq() > before + 1, f"ticks count: {self.worker.log()[-2000:]}")
        until(self._holds_all, f"all buckets are held: {self.worker.log()[-2000:]}")
        assert self.worker.process.poll() is None
        assert self.beat.process.poll() is None

    def _holds_all(self) -> bool:
        keys = [f"vmscaler:{{autoscaler-bucket-{number:02}-of-04}}:lease" for number in range(4)]
        return all(self.client.hget(key, "agent") for key in keys)

    def says(self) -> str:
        """What `vmscaler status` prints."""
        command = [sys.executable, "-m", "app.main", "status"]
        environment = os.environ | {"CONFIG_PATH": str(self.config)}
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        return said.stdout + said.stderr

    def waits_for(self, words: str) -> None:
        """The worker and beat say what is wrong, and so does `status`."""
        self.worker.wait_for(words)
        self.beat.wait_for(words)
        assert words in self.says()

    def answers_remote_control(self) -> bool:
        command = [sys.executable, "-m", "celery", "-A", "workers", "inspect", "ping", "-t", "2"]
        environment = os.environ | {"CONFIG_PATH": str(self.config)}
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        return "pong" in said.stdout

    def stop(self) -> None:
        self.worker.stop()
        self.beat.stop()
        self.proxy.close()
        self.server.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        made.goes_on()
        yield made
    finally:
        made.stop()
    for log in (made.worker.log(), made.beat.log()):
        assert SECRET not in log
        assert "Traceback" not in log, log


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_work_goes_on_after_an_outage(fleet: Fleet, seconds: float) -> None:
    fleet.server.be_away(seconds)
    fleet.goes_on()


def test_work_goes_on_after_three_outages_within_three_seconds(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.server.be_away(0.3)
        time.sleep(0.5)
    fleet.goes_on()


def test_work_goes_on_after_redis_has_lost_its_keys(fleet: Fleet) -> None:
    fleet.client.flushall()
    fleet.goes_on()


def test_half_open_connections_of_consumer_remote_control_and_leases_are_replaced(fleet: Fleet) -> None:
    until(fleet.answers_remote_control, "remote control answers")
    for sent in (b"BRPOP", b"PSUBSCRIBE", b"EVALSHA"):
        assert fleet.proxy.freeze(sent) > 0
    fleet.goes_on()
    until(fleet.answers_remote_control, "remote control answers again")


def test_a_full_redis_and_a_read_only_one_are_waited_for(fleet: Fleet, tmp_path: Path) -> None:
    fleet.client.config_set("maxmemory", "1")
    fleet.waits_for("maxmemory")
    fleet.client.config_set("maxmemory", "0")
    fleet.goes_on()
    other = TcpRedis(tmp_path / "other", {"requirepass": SECRET})
    try:
        fleet.client.config_set("masterauth", SECRET)
        fleet.client.replicaof("127.0.0.1", other.port)
        fleet.worker.wait_for("read only replica")
        fleet.beat.wait_for("read only replica")
        fleet.client.replicaof("NO", "ONE")
        fleet.goes_on()
    finally:
        other.close()


def test_a_password_that_was_changed_is_read_anew(fleet: Fleet) -> None:
    fleet.client.config_set("requirepass", f"{SECRET}-2")
    fleet.proxy.cut()
    fleet.waits_for("invalid username-password pair")
    fleet.password.write_text(f"{SECRET}-2")
    fleet.goes_on()


def test_workers_stop_acting_before_their_leases_can_end(fleet: Fleet) -> None:
    held = fleet.worker.log().count("lease lost")
    process = fleet.server.process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        fleet.worker.wait_for("lease lost", held + 4)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    fleet.goes_on()


def test_worker_and_beat_can_be_stopped_while_redis_is_away(fleet: Fleet) -> None:
    """The last one: it ends both."""
    fleet.server.stop()
    lost = fleet.worker.log().count("the broker is out of reach")
    fleet.worker.wait_for("the broker is out of reach", max(lost, 1))
    time.sleep(3)  # a heartbeat of the worker is tried meanwhile
    assert fleet.beat.stop() == 0
    assert fleet.worker.stop() == 0
