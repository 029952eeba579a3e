"""A worker of an older version beside what a newer one has written: it goes on with the rest, and says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from app.adapters.embedded_redis import start_embedded
from app.services.record_version import RECORD_VERSION
from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import FleetProcess, until


class World:
    """Redis, a fleet, a beat, and one worker after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.redis = start_embedded(directory / "redis")
        self.fleet = FleetProcess(vms=6)
        self.config = write_config(
            directory / "config.json",
            {"url": self.redis.url},
            platform={"kind": "sim", "url": self.fleet.url},
        )
        self.client = redis.Redis.from_url(self.redis.url)
        self.processes = [CeleryProcess.beat(self.config, directory)]

    def worker(self, name: str) -> CeleryProcess:
        self.processes.append(CeleryProcess.worker(self.config, self.directory, name))
        return self.processes[-1]

    def records(self) -> dict[str, dict[str, Any]]:
        found = {}
        for key in self.client.scan_iter(match="vmscaler:{*}:state"):
            for vm, raw in self.client.hgetall(key).items():
                found[vm.decode()] = {**json.loads(raw), "place": (key, vm), "raw": raw}
        return found

    def polls(self) -> dict[str, int]:
        return {vm: record.get("counters", {}).get("polls", 0) for vm, record in self.records().items()}

    def ask(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "app.main", *arguments]
        environment = os.environ | {"CONFIG_PATH": str(self.config)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def send(self, queue: str, task: str, *args: object, **kwargs: object) -> None:
        path = str(self.redis.socket_path)
        with Celery("newer", broker=f"redis+socket://{path}") as app:
            app.send_task(task, args=args, kwargs=kwargs, queue=queue, ignore_result=True)

    def stop(self) -> None:
        for process in self.processes:
            process.stop()
        self.fleet.stop()
        self.client.close()
        self.redis.stop()


@pytest.fixture
def world(short_directory: Path) -> Iterator[World]:
    made = World(short_directory)
    yield made
    made.stop()


@pytest.mark.timeout(300)
def test_an_older_worker_leaves_alone_what_a_newer_one_wrote_and_goes_on_with_the_rest(world: World) -> None:
    newer = world.worker("newer")
    until(lambda: len(world.polls()) == 6 and min(world.polls().values()) > 0, "all are polled")
    newer.stop()
    records = world.records()
    chosen = sorted(records)[0]
    record = {name: value for name, value in records[chosen].items() if name not in ("place", "raw")}
    written = json.dumps({**record, "v": RECORD_VERSION + 1, "size": "is told otherwise"}).encode()
    world.client.hset(*records[chosen]["place"], written)

    older = world.worker("older")
    before = world.polls()
    until(
        lambda: all(world.polls()[vm] > before[vm] + 1 for vm in before if vm != chosen),
        "the others are polled",
    )
    older.wait_for("VM left alone")
    bucket = record["bucket"]
    world.send(bucket, "vmscaler.poll_bucket", bucket, 1, priority="new")
    world.send(bucket, "vmscaler.poll_bucket", bucket, "no seq", 3, [])
    world.send(bucket, "vmscaler.upscale", vm=chosen, bucket=bucket, new={"a": 1})
    world.send("vmscaler", "vmscaler.tick", since=7)
    world.send("vmscaler", "vmscaler.task_of_tomorrow", bucket)
    before = world.polls()
    until(
        lambda: all(world.polls()[vm] > before[vm] + 1 for vm in before if vm != chosen), "it goes on polling"
    )

    assert world.records()[chosen]["raw"] == written
    assert older.process.poll() is None
    status, explained = world.ask("status"), world.ask("explain", chosen)
    assert "left alone" in status
    assert "newer vmscaler" in status
    assert "newer vmscaler" in explained
