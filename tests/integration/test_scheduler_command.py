"""`vmscaler scheduler` as an operator runs it: beside a simulated fleet and a Redis."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.scheduler_registry import RegistrySchedulerWatch
from app.ports.peers import SchedulerInfo

PATIENCE_S = 60
VMSCALER = [sys.executable, "-m", "app.main"]


def wait_for(look: Callable[[], object]) -> None:
    """Look until it is there; fails after a minute."""
    for _ in range(PATIENCE_S * 10):
        if look():
            return
        threading.Event().wait(0.1)
    pytest.fail("it never came")


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A `vmscaler` process, killed at the end if it still runs."""
    process = subprocess.Popen([*VMSCALER, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def first_url(process: subprocess.Popen[str]) -> str:
    """The address in the process' first line of text."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://[0-9.]+:[0-9]+", line)
    assert found is not None, line
    return found[0]


@pytest.fixture
def watch(shared_redis: EmbeddedRedis, redis_prefix: str) -> RegistrySchedulerWatch:
    agents = RedisAgents(RedisConnection(shared_redis.url), RedisKeys(redis_prefix))
    return RegistrySchedulerWatch(agents, SystemClock())


@pytest.fixture
def sim_url() -> Iterator[str]:
    with running("sim", "--vms", "4", "--nodes", "1", "--control", "127.0.0.1:0") as process:
        yield first_url(process)


@pytest.fixture
def config(tmp_path: Path, shared_redis: EmbeddedRedis, redis_prefix: str, sim_url: str) -> str:
    settings = {
        "redis": {"url": shared_redis.url, "prefix": redis_prefix},
        "platform": {"kind": "sim", "url": sim_url},
        "nodeScheduler": {
            "port": 0,
            "nodes": [{"name": "sim-node-1", "cpu": 64, "memory": "256Gi", "reservedCpu": 1}],
        },
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings))
    return str(path)


def found(watch: RegistrySchedulerWatch) -> SchedulerInfo:
    wait_for(watch.current)
    info = watch.current()
    assert info is not None
    return info


def test_workers_find_it_ask_it_and_lose_it_when_it_ends(
    config: str, watch: RegistrySchedulerWatch, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with running("--config", config, "scheduler", "--journal", str(journal)) as process:
        url = first_url(process)
        info = found(watch)
        assert info.url == url
        node = requests.get(url, timeout=PATIENCE_S).json()["nodes"][0]
        assert node["capacity"] == {"milliCpu": 63_000, "bytes": 256 << 30}
        pod = node["pods"][0]
        namespace, name = pod["pod"].split("/")
        body = {
            "protoVersion": 3,
            "pod": {"name": name, "namespace": namespace},
            "resources": {"vCPUs": "1250m", "mem": pod["size"]["bytes"] // pod["slotBytes"]},
            "metrics": None,
        }
        answer = requests.post(url, json=body, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        assert answer.json()["permit"]["vCPUs"] == "1250m"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert watch.current() is None
    (line,) = [json.loads(text) for text in journal.read_text().splitlines()]
    assert (line["n"], line["vm"], line["effect"], line["token"]) == (1, pod["pod"], "granted", None)
    assert line["to"]["cpu_m"] == 1250


def test_a_journal_that_can_not_be_kept_is_one_line_and_status_2(config: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*VMSCALER, "--config", config, "scheduler", "--journal", str(tmp_path / "none" / "journal")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "none/journal" in done.stderr
    assert "Traceback" not in done.stderr


def test_each_start_is_another_scheduler(config: str, watch: RegistrySchedulerWatch) -> None:
    uids = []
    for _ in range(2):
        with running("--config", config, "scheduler", "--host", "127.0.0.1", "--port", "0") as process:
            uids.append(found(watch).uid)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
    assert uids[0] != uids[1]


def test_a_port_that_is_taken_is_one_line_and_status_2(config: str) -> None:
    with running("--config", config, "scheduler") as first:
        port = first_url(first).rpartition(":")[2]
        second = subprocess.run(
            [*VMSCALER, "--config", config, "scheduler", "--port", port],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert second.returncode == 2
    assert f"port {port}" in second.stderr
    assert "Traceback" not in second.stderr
