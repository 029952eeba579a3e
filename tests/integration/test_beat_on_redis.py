"""Beat's scheduler on a real Redis: one holder, one tick for all that were missed, whatever clocks do."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery

from app.adapters.embedded_redis import EmbeddedRedis, start_embedded
from app.adapters.redis_access import redis_access
from app.config.loading import build_settings
from workers.beat import MOST_WAITING, TRY_AGAIN_S, AnnouncingScheduler
from workers.transport import SturdyChannel, SturdyTransport

INTERVAL_S = 30.0
"""So long that no second tick comes by itself within a test."""


class Beat:
    """A beat without its loop, and what it has sent."""

    def __init__(self, url: str, prefix: str, *, interval_s: float = INTERVAL_S) -> None:
        app: Any = Celery("beat-test", broker="redis://unused", set_as_current=False)
        app.conf.update(
            broker_transport_options={"global_keyprefix": f"{prefix}:", "ack_emulation": False},
            task_default_queue="ticks",
            redbeat_redis_url="redis://unused",
            redbeat_redis_options={},
            redbeat_key_prefix=f"{prefix}:beat:",
            redbeat_lock_timeout=5,
            beat_max_loop_interval=1,
            beat_schedule={"tick": {"task": "tick", "schedule": interval_s}},
        )
        app.vmscaler_settings = build_settings({"redis": {"url": url, "prefix": prefix}}, {})
        self.client: Any = redis.Redis(
            unix_socket_path=url.removeprefix("unix://").partition("?")[0], decode_responses=True
        )
        self._queue = f"{prefix}:ticks"
        self.entry = f"{prefix}:beat:tick"
        self.schedule = f"{prefix}:beat::schedule"
        self.lock = f"{prefix}:beat::lock"
        self.scheduler = AnnouncingScheduler(app, lazy=False)

    def sent(self) -> int:
        """Ticks that stand in the queue."""
        return int(self.client.llen(self._queue))

    def ran(self, ago_s: float) -> None:
        """Make the schedule say that the last tick was so long ago, below 0: that it is still to come."""
        entry = AnnouncingScheduler.Entry.from_key(self.entry, app=self.scheduler.app)
        entry.reschedule(last_run_at=entry._default_now() - timedelta(seconds=ago_s))


@pytest.fixture(autouse=True)
def sturdy(monkeypatch: pytest.MonkeyPatch, own_redis: EmbeddedRedis) -> None:
    """This process' broker is the test's Redis."""
    from kombu import transport

    monkeypatch.setattr(SturdyChannel, "access", redis_access(own_redis.url))
    monkeypatch.setitem(transport.TRANSPORT_ALIASES, "redis", f"{__name__}:SturdyTransport")
    assert SturdyTransport.Channel is SturdyChannel


def a_beat(own_redis: EmbeddedRedis, **options: Any) -> Beat:
    return Beat(own_redis.url, "t", **options)


def test_of_two_beats_one_sends(own_redis: EmbeddedRedis) -> None:
    first, second = a_beat(own_redis), a_beat(own_redis)
    first.ran(60)
    first.scheduler.tick()
    assert first.sent() == 1
    second.ran(60)
    assert second.scheduler.tick() == TRY_AGAIN_S
    assert first.sent() == 1
    first.scheduler.tick()
    assert first.sent() == 2


def test_a_standby_takes_over_when_the_holder_lets_go_and_when_its_lock_has_expired(
    own_redis: EmbeddedRedis,
) -> None:
    first, second, third = a_beat(own_redis), a_beat(own_redis), a_beat(own_redis)
    first.ran(60)
    first.scheduler.tick()
    first.scheduler.close()
    second.ran(60)
    second.scheduler.tick()
    assert second.sent() == 2
    second.client.delete(second.lock)
    third.ran(60)
    third.scheduler.tick()
    assert third.sent() == 3
    # The earlier holder notices, and leaves it to the other.
    second.ran(60)
    assert second.scheduler.tick() == TRY_AGAIN_S
    assert second.scheduler.tick() == TRY_AGAIN_S
    assert third.sent() == 3


def test_a_beat_that_was_dead_for_a_minute_catches_up_with_one_tick(own_redis: EmbeddedRedis) -> None:
    beat = a_beat(own_redis, interval_s=0.5)
    beat.scheduler.tick()
    before = beat.sent()
    beat.ran(60)
    beat.client.zadd(beat.schedule, {beat.entry: time.time() - 60})
    started = time.monotonic()
    for _ in range(20):
        beat.scheduler.tick()
    rhythm = int((time.monotonic() - started) / 0.5) + 1
    assert 1 <= beat.sent() - before <= 1 + rhythm


def test_ticks_that_nobody_takes_do_not_fill_redis(own_redis: EmbeddedRedis) -> None:
    beat = a_beat(own_redis)
    beat.scheduler.tick()
    beat.client.rpush("t:ticks", *["old"] * (MOST_WAITING - 1 - beat.sent()))
    for _ in range(3):
        beat.ran(60)
        beat.scheduler.tick()
    assert beat.sent() == MOST_WAITING
    beat.client.ltrim("t:ticks", 0, 9)
    beat.ran(60)
    beat.scheduler.tick()
    assert beat.sent() == 11


@pytest.mark.parametrize("ago_s", [-3600.0, 3600.0])
def test_a_clock_that_steps_by_an_hour_stops_no_tick(own_redis: EmbeddedRedis, ago_s: float) -> None:
    beat = a_beat(own_redis, interval_s=0.2)
    beat.scheduler.tick()
    beat.ran(ago_s)
    before = beat.sent()
    for _ in range(3):
        time.sleep(beat.scheduler.tick())
    assert beat.sent() > before


def test_a_schedule_that_redis_has_lost_is_written_again(own_redis: EmbeddedRedis) -> None:
    beat = a_beat(own_redis, interval_s=0.2)
    beat.scheduler.tick()
    beat.client.flushdb()
    for _ in range(5):
        time.sleep(beat.scheduler.tick())
    assert beat.sent() >= 1


def test_a_lock_without_holder_that_outlives_its_time_is_cut_short(own_redis: EmbeddedRedis) -> None:
    beat = a_beat(own_redis)
    # A clock of Redis that went back leaves the lock's end where it was.
    beat.client.set(beat.lock, "somebody", px=3_600_000)
    assert beat.scheduler.tick() == TRY_AGAIN_S
    assert 0 < beat.client.pttl(beat.lock) <= 5_000


def test_a_redis_that_is_away_does_not_end_the_rhythm(
    own_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    beat = a_beat(own_redis)
    beat.scheduler.tick()
    own_redis.stop()
    with caplog.at_level("INFO", logger="workers.beat"):
        assert beat.scheduler.tick() == TRY_AGAIN_S
        assert beat.scheduler.tick() == TRY_AGAIN_S
        again = start_embedded(own_redis.socket_path.parent)
        try:
            beat.ran(60)
            before = beat.sent()
            while beat.scheduler.tick() == TRY_AGAIN_S and beat.sent() == before:
                time.sleep(0.05)
            assert beat.sent() == before + 1
        finally:
            again.stop()
    said = [record.message for record in caplog.records]
    assert said.count("beat stands still") == 1
    assert said.count("beat goes on") == 1


def test_a_full_redis_is_told_once_and_the_rhythm_goes_on_when_there_is_room(
    own_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    beat = a_beat(own_redis)
    beat.scheduler.tick()
    beat.ran(60)
    beat.client.config_set("maxmemory", "1")
    with caplog.at_level("INFO", logger="workers.beat"):
        for _ in range(3):
            assert beat.scheduler.tick() == TRY_AGAIN_S
        beat.client.config_set("maxmemory", "0")
        beat.ran(60)
        before = beat.sent()
        beat.scheduler.tick()
    assert beat.sent() == before + 1
    told = [record for record in caplog.records if record.message == "beat stands still"]
    assert len(told) == 1
    assert "OutOfMemory" in told[0].__dict__["reason"]
