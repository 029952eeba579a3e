"""A running worker and a running beat read their configuration anew on SIGHUP, and go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.celery_process import CeleryProcess, write_config


def lines(process: CeleryProcess) -> list[dict[str, Any]]:
    """What it has written as JSON."""
    return [json.loads(line) for line in process.log().splitlines() if line.startswith('{"')]


def hang_up(process: CeleryProcess) -> None:
    process.process.send_signal(signal.SIGHUP)


@contextmanager
def running(process: CeleryProcess) -> Iterator[CeleryProcess]:
    try:
        yield process
    finally:
        process.stop()


def reloads(process: CeleryProcess, path: Path, redis: dict[str, Any]) -> None:
    """Lead a process that is at work through a change, a mistake and another change."""
    write_config(path, redis, logging={"format": "json"}, web={"port": 9999})
    hang_up(process)
    process.wait_for('"event": "configuration reloaded"')
    found = [(line["event"], line.get("setting")) for line in lines(process)]
    assert ("setting taken over", ".logging.format") in found
    assert ("a changed setting needs a restart", ".web.port") in found
    path.write_text('{"logging": {"levell": "debug"}, "redis": {"url": "redis://:s3cret-pw@h"}}')
    hang_up(process)
    process.wait_for("configuration not reloaded")
    (error,) = [line for line in lines(process) if line["level"] == "error"]
    assert "levell" in error["problem"]
    write_config(path, redis, logging={"format": "console"})
    hang_up(process)
    process.wait_for("configuration reloaded taken_over=1 need_restart=0")
    assert "s3cret" not in process.log()
    assert "Restarting celery worker" not in process.log()


@pytest.mark.timeout(180)
def test_a_worker_takes_over_what_it_may_and_names_the_rest(
    redis_url: str, redis_prefix: str, tmp_path: Path
) -> None:
    redis = {"url": redis_url, "prefix": redis_prefix}
    path = write_config(tmp_path / "config.json", redis)
    with running(CeleryProcess.worker(path, tmp_path)) as worker:
        worker.wait_for("HTTP server listens")
        worker.wait_for("bucket taken")
        reloads(worker, path, redis)
        assert worker.stop() == 0
        assert "bucket handed over" in worker.log()


@pytest.mark.timeout(180)
def test_a_beat_takes_over_how_it_logs_and_goes_on(redis_url: str, redis_prefix: str, tmp_path: Path) -> None:
    redis = {"url": redis_url, "prefix": redis_prefix}
    path = write_config(tmp_path / "config.json", redis)
    with running(CeleryProcess.beat(path, tmp_path)) as beat:
        beat.wait_for("beat has the lock")
        reloads(beat, path, redis)
        assert beat.process.poll() is None
