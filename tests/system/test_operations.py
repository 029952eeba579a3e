"""Real processes: what they tell of their health, their state dump, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import FleetProcess, until
from tests.redis_server import TcpRedis


def command(config: Path, *arguments: str) -> tuple[int, str, str]:
    """`vmscaler` with this configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "app.main", "--config", str(config), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def beat_address(beat: CeleryProcess) -> str:
    """Where its HTTP server listens."""
    beat.wait_for("server=beat port=")
    return "127.0.0.1:" + beat.log().partition("server=beat port=")[2].split()[0]


def page(address: str, path: str) -> tuple[int, dict[str, Any]]:
    answer = requests.get(f"http://{address}{path}", timeout=30)
    return answer.status_code, answer.json()


@pytest.mark.timeout(300)
def test_a_fleet_tells_its_health_and_its_state_and_leaves_in_peace(tmp_path: Path) -> None:
    redis, fleet = TcpRedis(tmp_path / "redis"), FleetProcess(vms=3)
    token = tmp_path / "token"
    token.write_text("a-token-that-must-not-show\n")
    config = write_config(
        tmp_path / "config.json",
        {"url": redis.url},
        platform={"kind": "sim", "url": fleet.url},
        dumpState={"port": 0},
        security={"servers": {"web": {"tokenFile": str(token)}}},
    )
    worker, beat = CeleryProcess.worker(config, tmp_path), CeleryProcess.beat(config, tmp_path)
    try:
        at = worker.web_address()
        until(lambda: page(at, "/readyz") == (200, {"status": "ready", "reasons": []}), "the worker is ready")
        beat_at = beat_address(beat)
        until(lambda: page(beat_at, "/healthz")[1]["role"] == "leader", "beat has the lock")
        assert page(beat_at, "/healthz")[0] == 200
        assert page(beat_at, "/readyz") == (200, {"status": "ready", "reasons": []})

        until(lambda: worker.log().count("bucket taken") == 4, "all buckets are held")
        status, output, _ = command(config, "dump")
        (told,) = json.loads(output)["workers"]
        assert (status, len(told["pods"])) == (0, 3)
        assert told["worker"] == "worker1"
        assert told["buildInfo"]["pythonVersion"] == sys.version.split()[0]
        assert [pod["podName"]["name"] for pod in told["pods"]] == sorted(
            pod["podName"]["name"] for pod in told["pods"]
        )
        name = told["pods"][0]["podName"]["name"]
        (one,) = json.loads(command(config, "dump", "--vm", name)[1])["workers"][0]["pods"]
        assert one["podName"]["name"] == name
        archive = tmp_path / "bundle.tar.gz"
        assert command(config, "support-bundle", "-o", str(archive))[0] in (0, 1)
        with tarfile.open(archive) as bundle:
            members = [bundle.extractfile(member) for member in bundle.getmembers()]
            whole = b"".join(member.read() for member in members if member is not None)
        assert b"executorState" in whole
        assert b"a-token-that-must-not-show" not in whole
    finally:
        ends = [beat.stop(), worker.stop(signal.SIGINT)]
        fleet.stop()
    assert ends == [0, 0]
    assert "bucket handed over" in worker.log()
    left = json.loads(command(config, "agents", "--json")[1])["agents"]
    redis.stop()
    assert left == []


@pytest.mark.timeout(300)
def test_ends_that_a_silent_redis_holds_up_are_cut_short(tmp_path: Path) -> None:
    redis = TcpRedis(tmp_path / "redis")
    config = write_config(tmp_path / "config.json", {"url": redis.url})
    hasty = write_config(tmp_path / "hasty.json", {"url": redis.url}, shutdown={"gracePeriodSeconds": 1.0})
    twice = CeleryProcess.worker(config, tmp_path, "worker1")
    once = CeleryProcess.worker(hasty, tmp_path, "worker2")
    try:
        for worker in (twice, once):
            worker.wait_for("bucket taken")
        assert redis.process is not None
        os.kill(redis.process.pid, signal.SIGSTOP)
        once.process.send_signal(signal.SIGTERM)
        twice.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        twice.process.send_signal(signal.SIGTERM)
        assert twice.process.wait(60) == 143
        assert once.process.wait(60) == 124
        assert "not ended within 1 s of the signal" in once.log()
    finally:
        if redis.process is not None:
            os.kill(redis.process.pid, signal.SIGCONT)
        for worker in (twice, once):
            worker.stop(signal.SIGKILL)
        redis.stop()


@pytest.mark.timeout(120)
def test_a_beat_that_never_had_a_redis_says_so_and_ends_when_asked(tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.json", {"url": "redis://127.0.0.1:9/0"})
    beat = CeleryProcess.beat(config, tmp_path)
    address = beat_address(beat)
    status, told = page(address, "/readyz")
    assert status == 503
    assert told["reasons"] == ["the schedule is not written yet"]
    assert page(address, "/healthz")[0] == 200
    assert beat.stop() == 0
