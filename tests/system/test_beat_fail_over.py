"""Two beats: the standby takes over within 8 s, and at no time do two of them make two ticks count."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.adapters.redis_connection import RedisConnection, now_ms
from tests.celery_process import CeleryProcess, write_config
from tests.fleet_process import until

TAKE_OVER_MS = 8_000
SLACK_MS = 12_000
"""For a machine that is busy; on a quiet one the take-over was measured at 5.6 s."""


@pytest.mark.timeout(180)
def test_the_standby_takes_over_when_the_beat_that_has_the_lock_is_killed(
    own_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "config.json", {"url": own_redis.url})
    connection = RedisConnection(own_redis.url)
    first = CeleryProcess.beat(config, tmp_path, "beat1")
    first.wait_for("beat has the lock")
    second = CeleryProcess.beat(config, tmp_path, "beat2")
    try:
        second.wait_for("beat: Starting")
        until(lambda: _ticks(connection) > 5, "ticks are sent")
        # What both together send is what one sends: ten ticks a second at most.
        started, before = now_ms(connection.execute("TIME")), _ticks(connection)
        time.sleep(3)
        sent = _ticks(connection) - before
        assert sent <= (now_ms(connection.execute("TIME")) - started) / 100 + 2
        assert "beat has the lock" not in second.log()
        first.stop(signal.SIGKILL)
        killed, before = now_ms(connection.execute("TIME")), _ticks(connection)
        until(lambda: _ticks(connection) > before, "the standby sends ticks")
        took_ms = now_ms(connection.execute("TIME")) - killed
        assert took_ms < TAKE_OVER_MS + SLACK_MS
        assert "beat has the lock" in second.log()
    finally:
        first.stop()
        assert second.stop() == 0
    # A beat that ends in peace lets go of the lock, for the next one to take at once.
    assert connection.execute("EXISTS", "vmscaler:beat::lock") == 0
    # Nobody was there for all these ticks: they are dropped, not worked off.
    worker = CeleryProcess.worker(config, tmp_path)
    try:
        worker.wait_for("backlog dropped bucket=vmscaler")
        assert _ticks(connection) == 0
    finally:
        worker.stop()


def _ticks(connection: RedisConnection) -> int:
    length: Any = connection.execute("LLEN", "vmscaler")
    return int(length)
