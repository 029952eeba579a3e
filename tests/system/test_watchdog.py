"""Real workers that get stuck are ended by their watchdog; those that wait or were stopped are not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from celery import Celery

from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_queues import RedisQueues
from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import until
from tests.redis_server import TcpRedis

EXIT_NO_PROGRESS = 75


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TcpRedis]:
    redis = TcpRedis(tmp_path / "redis")
    yield redis
    redis.close()


def stuck_worker(config: Path, directory: Path) -> CeleryProcess:
    return CeleryProcess(
        config,
        directory / "worker1.log",
        *("worker", "-P", "gevent", "-n", "worker1@%h", "-l", "info"),
        app="tests.stuck_worker",
    )


def send(server: TcpRedis, task: str, *arguments: Any) -> None:
    with Celery("sender", broker=server.url, set_as_current=False) as sender:
        sender.send_task(task, arguments, queue="vmscaler")


@pytest.mark.timeout(180)
def test_a_worker_whose_loop_is_blocked_is_ended_and_says_why(server: TcpRedis, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.json", {"url": server.url}, watchdog={"loopBlockedSeconds": 3})
    worker = stuck_worker(config, tmp_path)
    try:
        worker.wait_for("watchdog watches")
        worker.wait_for("ready")
        # Stopped for longer than the limit: the process has lost no turn of its own.
        os.kill(worker.process.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(worker.process.pid, signal.SIGCONT)
        send(server, "test.pause_loop", 1)
        until(lambda: not server.client().llen("vmscaler"), "the worker goes on")
        assert worker.process.poll() is None
        send(server, "test.block_loop")
        assert worker.process.wait(90) == EXIT_NO_PROGRESS
        assert "CRITICAL watchdog: nothing has had a turn for 3 s" in worker.log()
        assert "in block_loop" in worker.log()
    finally:
        worker.stop()


@pytest.mark.timeout(180)
def test_a_worker_that_takes_no_task_is_ended_but_not_while_redis_is_away(
    server: TcpRedis, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "config.json", {"url": server.url}, watchdog={"noTasksSeconds": 4})
    worker = stuck_worker(config, tmp_path)
    try:
        worker.wait_for("ready")
        server.be_away(6)
        worker.wait_for("the broker is back")
        send(server, "test.block_consumer")
        queues = RedisQueues(RedisConnection(server.url), "")

        def waits() -> bool:
            send(server, "test.pause_loop", 0)
            return queues.waiting(["vmscaler"]) > 2

        until(waits, "tasks wait")
        address = worker.web_address()
        assert requests.get(f"http://{address}/healthz", timeout=10).status_code == 200
        until(
            lambda: requests.get(f"http://{address}/healthz", timeout=10).status_code == 503, "health says so"
        )
        assert worker.process.wait(90) == EXIT_NO_PROGRESS
        assert "tasks wait in this worker's queues, Redis answers" in worker.log()
    finally:
        worker.stop()
