"""Workers as agents of simulated VMs' informants: a kill, a stranger, a clean end (`informant.register`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.adapters.embedded_redis import start_embedded
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.services.informant_link import SUSPENDED
from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import FleetProcess, until

VMS = 6


class World:
    """Redis, a fleet, a beat and two workers."""

    def __init__(self, directory: Path) -> None:
        self._redis = start_embedded(directory / "redis")
        self.fleet = FleetProcess(vms=VMS)
        self.config = write_config(
            directory / "config.json",
            {"url": self._redis.url},
            platform={"kind": "sim", "url": self.fleet.url},
            informant={"register": True, "ports": "0", "retryMinWaitSeconds": 0.2},
        )
        self._agents = RedisAgents(RedisConnection(self._redis.url), RedisKeys("vmscaler"))
        self.beat = CeleryProcess.beat(self.config, directory)
        self.workers = {
            name: CeleryProcess.worker(self.config, directory, name) for name in ("worker1", "worker2")
        }

    def active(self) -> dict[str, int]:
        """How many VMs each live worker may change, as it says."""
        every = [json.loads(record.facts) for record in self._agents.list()]
        return {
            facts["name"]: facts["counters"]["informant_active"]
            for facts in every
            if facts["kind"] == "worker"
        }

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """`vmscaler`, with this fleet's configuration."""
        return subprocess.Popen(
            [sys.executable, "-m", "app.main", *arguments],
            env=os.environ | {"CONFIG_PATH": str(self.config)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        output, _ = self.command(*arguments, "--json").communicate(timeout=60)
        return json.loads(output)

    def listed(self) -> Counter[str]:
        """Agents by worker, as `informant list` shows them."""
        return Counter(agent["worker"] for agent in self.ask("informant", "list")["agents"])

    def close(self) -> None:
        for process in (*self.workers.values(), self.beat):
            process.stop(signal.SIGKILL)
        self.fleet.stop()
        self._redis.stop()


@pytest.fixture
def world(short_directory: Path) -> Iterator[World]:
    one = World(short_directory)
    yield one
    one.close()


@pytest.mark.timeout(300)
def test_informants_follow_the_owners_of_their_vms(world: World) -> None:
    until(lambda: len(world.active()) == 2 and sum(world.active().values()) == VMS, "all are resumed")
    until(lambda: world.listed() == Counter(world.active()), "all are listed")

    key, vm = next(iter(world.fleet.vms().items()))
    url = f"http://127.0.0.1:{vm['informant']['port']}"
    stranger = world.command("informant", "register", url, "--json")
    try:
        until(lambda: sum(world.active().values()) == VMS - 1, "a stranger is the current agent of one VM")
        until(lambda: world.ask("vm", "show", key)["status_reason"] == SUSPENDED, "an operator sees it")
    finally:
        stranger.send_signal(signal.SIGTERM)
        stranger.communicate(timeout=60)
    until(lambda: sum(world.active().values()) == VMS, "and the worker is resumed after it")

    world.workers["worker1"].stop(signal.SIGKILL)
    until(lambda: world.active().get("worker2") == VMS, "the other worker is resumed for all")
    until(lambda: world.listed()["worker2"] == VMS, "and listed")

    assert world.workers["worker2"].stop(signal.SIGTERM) == 0
    assert world.listed()["worker2"] == 0, "it has unregistered"
