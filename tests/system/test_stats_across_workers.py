"""Stats pushed to any worker reach their owners: over hand-over, a clean end and a kill, none is lost."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from app.adapters.embedded_redis import start_embedded
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.protocols.stat_tokens import vm_token
from tests.celery_process import QUICK, CeleryProcess, write_config
from tests.fleet_process import FleetProcess, until

SECRET = "sixteen bytes, or more"


class Pushers:
    """All VMs of a fleet, which push to whatever worker is named."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.taken: set[tuple[str, int]] = set()
        self._last = 0

    def push(self, address: str) -> None:
        """One stat of each VM; what was not answered with 202 was not taken."""
        for key in self.keys:
            self._last = max(self._last + 1, time.time_ns() // 1_000_000)
            entry = {
                "key": key,
                "load1": 0.1,
                "load5": 0.1,
                "memTotalBytes": 1 << 30,
                "memAvailableBytes": 1 << 29,
                "timestamp": self._last,
            }
            headers = {"Authorization": f"Bearer {vm_token(SECRET, key)}"}
            try:
                answer = requests.post(
                    f"http://{address}/v1/stats", json=[entry], headers=headers, timeout=10
                )
            except requests.RequestException:
                continue
            if answer.status_code == 202:
                self.taken.add((key, self._last))


class World:
    """Redis, a fleet of VMs that can't be polled here, workers and a beat."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._redis = start_embedded(directory / "redis")
        self.fleet = FleetProcess(vms=12)
        (directory / "secret").write_text(SECRET)
        self.journal = directory / "journal"
        redis = {"url": self._redis.url}
        self._config = write_config(
            directory / "config.json",
            redis,
            platform={"kind": "sim", "url": self.fleet.url},
            stats={"enabled": True, "secretFile": str(directory / "secret"), "journal": str(self.journal)},
            ownership={**QUICK["ownership"], "buckets": 6},
        )
        connection = RedisConnection(self._redis.url)
        self._agents = RedisAgents(connection, RedisKeys("vmscaler"))
        self.processes: dict[str, CeleryProcess] = {"beat": CeleryProcess.beat(self._config, directory)}

    def start(self, name: str) -> None:
        self.processes[name] = CeleryProcess.worker(self._config, self._directory, name)

    def facts(self) -> dict[str, dict[str, Any]]:
        """What each live worker says of itself."""
        every = [json.loads(record.facts) for record in self._agents.list()]
        return {facts["name"]: facts for facts in every if facts["kind"] == "worker"}

    def wait_for_buckets(self, **numbers: int) -> None:
        """Until the workers hold so many buckets each, and all have their VMs."""

        def is_there() -> bool:
            facts = self.facts()
            held = {name: len(facts[name]["buckets"]) for name in numbers if name in facts}
            return held == numbers and sum(facts[name]["vms"] for name in numbers) == 12

        until(is_there, f"{numbers}: {self.facts()}")

    def lines(self) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def fates(self) -> Counter[tuple[str, str, int]]:
        return Counter((line["fate"], line["key"], line["timestamp"]) for line in self.lines())

    def close(self) -> None:
        for process in self.processes.values():
            process.stop(signal.SIGKILL)
        self.fleet.stop()
        self._redis.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_each_taken_stat_is_accepted_once_whichever_worker_takes_it_and_whoever_leaves(world: World) -> None:
    pushers = Pushers(sorted(world.fleet.vms()))
    world.start("worker1")
    world.wait_for_buckets(worker1=6)
    world.start("worker2")
    addresses = {name: facts["address"] for name, facts in world.facts().items()}
    # Buckets change hands while stats keep coming in.
    while len(world.facts().get("worker2", {"buckets": []})["buckets"]) < 3:
        pushers.push(addresses["worker1"])
    addresses = {name: facts["address"] for name, facts in world.facts().items()}
    for _ in range(10):
        pushers.push(addresses["worker1"])
        pushers.push(addresses["worker2"])
    # A clean end in the middle of it.
    world.processes["worker2"].process.send_signal(signal.SIGTERM)
    for _ in range(10):
        pushers.push(addresses["worker2"])
        pushers.push(addresses["worker1"])
    world.processes["worker2"].process.wait(60)
    world.wait_for_buckets(worker1=6)
    until(lambda: not missing(world, pushers), f"all accepted; missing: {missing(world, pushers)}")
    # Of two intakes one may be quicker than the other: what it overtakes is late.
    assert_one_fate(world, pushers, may_be_late=True)
    assert (
        {"taken", "forwarded", "accepted"}
        <= {fate for fate, _, _ in world.fates()}
        <= {
            "taken",
            "forwarded",
            "accepted",
            "late",
        }
    )
    counters = world.facts()["worker1"]["counters"]
    assert counters["stats_taken"] + counters["stats_received"] == sum(
        counters[f"stats_{name}"]
        for name in ("accepted", "forwarded", "late", "dropped", "returned", "in_hand")
    )


@pytest.mark.timeout(300)
def test_a_killed_owner_loses_none_that_was_on_its_way_to_it(world: World) -> None:
    pushers = Pushers(sorted(world.fleet.vms()))
    world.start("worker1")
    world.start("worker2")
    world.wait_for_buckets(worker1=3, worker2=3)
    address = world.facts()["worker1"]["address"]
    for _ in range(5):
        pushers.push(address)
    until(lambda: not missing(world, pushers), "nothing is in worker2's hands")
    world.processes["worker2"].process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        pushers.push(address)  # those of worker2's VMs wait in Redis now
    world.processes["worker2"].process.kill()
    world.wait_for_buckets(worker1=6)
    until(lambda: not missing(world, pushers), f"all accepted; missing: {missing(world, pushers)}")
    assert_one_fate(world, pushers, may_be_late=False)


def missing(world: World, pushers: Pushers) -> set[tuple[str, int]]:
    """Taken, and without a last fate."""
    ended = {(key, at) for fate, key, at in world.fates() if fate in ("accepted", "late", "dropped")}
    return pushers.taken - ended


def assert_one_fate(world: World, pushers: Pushers, *, may_be_late: bool) -> None:
    fates = world.fates()
    assert len(pushers.taken) > 50
    ends = ("accepted", "late") if may_be_late else ("accepted",)
    ended: Counter[tuple[str, int]] = Counter()
    for (fate, key, at), times in fates.items():
        ended[key, at] += times if fate in ends else 0
    ended = +ended
    accepted = {(key, at) for fate, key, at in fates if fate == "accepted"}
    assert ended == Counter(pushers.taken)
    assert len(accepted) > len(pushers.taken) / 2
    last: dict[str, int] = {}
    tokens: dict[str, int] = {}
    for line in world.lines():
        if line["fate"] == "accepted":
            assert line["timestamp"] > last.get(line["key"], 0)
            assert line["token"] >= tokens.get(line["key"], 0)
            last[line["key"]], tokens[line["key"]] = line["timestamp"], line["token"]
