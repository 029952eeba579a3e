"""Beat's scheduler: RedBeat, that outlives a Redis that is away and tells the registry of its progress.

A standby tries RedBeat's lock each second and says nothing; what `status` shows is the beat that gives the
rhythm. Times of the schedule are those of the wall clock: a schedule that lies in the future, since a clock
went back, is begun anew, and so is a lock that would last longer than any holder asked for. A schedule that
Redis has lost is written again.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import uuid
from functools import partial
from typing import Any

import redis
from celery import beat
from celery.signals import beat_init
from kombu.exceptions import KombuError
from redbeat import RedBeatScheduler
from redbeat import schedulers as redbeat_schedulers
from redbeat.decoder import to_timestamp
from redis.exceptions import RedisError

from app import __version__
from app.adapters.ending import end_within
from app.adapters.redis_access import redis_access
from app.bootstrap.reloading import build_reloading
from app.bootstrap.stores import Stores
from app.ports.own_metrics import BEAT_SENT
from app.services.announcing import ANNOUNCE_EVERY_S, Announcement
from workers.beat_health import BeatHealth
from workers.process_log import log_anew
from workers.trouble import Trouble, reason_of

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 1.0
"""Pause after a look at a Redis that is away, or at a lock that another beat has."""

MOST_WAITING = 100
"""Ticks that stand in the shared queue: nobody takes them, and more would only fill Redis."""

_AWAY = (RedisError, KombuError, OSError, beat.SchedulingError)


class AnnouncingScheduler(RedBeatScheduler):  # type: ignore[misc]
    """RedBeat with an entry in the registry, refreshed from the loop that sends the ticks.

    RedBeat itself ends at the first error of Redis, and with it the rhythm of the whole fleet. Here the lock
    is taken for lost then, and taken anew before the next tick: two beats never tick because of it.

    Attributes:
        is_reload_asked: the configuration is to be read anew before the next look at the schedule.
    """

    lock: Any

    def __init__(self, app: Any, **kwargs: Any) -> None:
        # Our way to Redis (Sentinels, TLS, passwords that change) in place of RedBeat's own.
        pool = redis_access(app.vmscaler_settings.redis).pool(decode_responses=True)
        self._redis: Any = redis.Redis(connection_pool=pool)
        app.redbeat_redis = self._redis
        self._shared_queue = app.vmscaler_settings.broker_prefix + app.conf.task_default_queue
        # RedBeat waits for the lock inside this signal, deaf to everything; `tick` takes it instead.
        beat_init.disconnect(redbeat_schedulers.acquire_distributed_beat_lock)
        self._trouble = Trouble(logger, "beat stands still", "beat goes on")
        self._has_lock = False
        settings = app.vmscaler_settings
        self._reloading = build_reloading(settings, settings.env.config_path, partial(log_anew, app))
        self.is_reload_asked = False
        self.health = BeatHealth(settings)
        super().__init__(app, **kwargs)
        agent_id = str(uuid.uuid4())
        facts = {
            "kind": "beat",
            "name": "beat",
            "identity": "beat",
            "agent_id": agent_id,
            "started_ms": int(time.time() * 1000),
            "version": __version__,
            "pid": os.getpid(),
        }

        def told() -> dict[str, object]:
            told = {"address": self.health.address, "problems": self.health.problems}
            return facts | told | {"clock_ms": int(time.time() * 1000)}

        self._announcement = Announcement(Stores(settings).agents, agent_id, told)
        self._announced = float("-inf")

    def setup_schedule(self) -> None:
        """Write the entries; waits for a Redis that is not there yet."""
        while True:
            try:
                super().setup_schedule()
            except _AWAY as err:
                self.be_looked_after()
                self._trouble.has(err)
                self.health.turned("starting", self._trouble.reason)
                time.sleep(TRY_AGAIN_S)
            else:
                return

    def be_looked_after(self) -> None:
        """From now on tell of our health, and end within the grace period; again and again is fine."""
        self.health.start()
        # Celery's own handler lets go of everything in the middle of whatever was interrupted, and waits for
        # a Redis that has not been there yet; its loop does the same at its end.
        end_within(self.app.vmscaler_settings.shutdown.grace_period_seconds, sys.exit)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; seconds until the next look."""
        if self.is_reload_asked:
            self.is_reload_asked = False
            self._reloading.reload()
        pause = self._tick(*args, **kwargs)
        self.health.turned("leader" if self._has_lock else "standby", self._trouble.reason)
        return pause

    def _tick(self, *args: Any, **kwargs: Any) -> float:
        try:
            if not self._take_lock():
                self._trouble.is_over()
                return TRY_AGAIN_S
            self._mend_schedule()
            pause: float = super().tick(*args, **kwargs)
        except _AWAY as err:
            self._has_lock = False
            self._trouble.has(err)
            return TRY_AGAIN_S
        self._trouble.is_over()
        now = time.monotonic()
        if now - self._announced >= ANNOUNCE_EVERY_S:
            self._announced = now
            self._announcement.refresh()
        return pause

    def maybe_due(self, entry: Any, **kwargs: Any) -> Any:
        """See RedBeat, which logs a trace for each tick that is not sent; here the whole tick fails."""
        is_due, next_s = entry.is_due()
        if is_due and self._redis.llen(self._shared_queue) < MOST_WAITING:
            self.apply_async(entry, **kwargs)
            BEAT_SENT.add("sent")
        elif is_due:
            BEAT_SENT.add("held_back")
            self.reserve(entry)  # as if it had been sent
        return next_s

    def close(self) -> None:
        """Leave the registry, let go of the lock; what can't be let go expires by itself."""
        self.health.stop()
        self._announcement.end()
        try:
            super().close()
        except _AWAY as err:
            logger.warning("lock not released: it will expire", extra={"reason": reason_of(err)})

    def _ensure_connected(self) -> Any:
        """The broker's connection; Celery's own way waits here for ever, with the lock in its hands."""
        return self.connection.ensure_connection(max_retries=1, interval_start=0)

    def _take_lock(self) -> bool:
        """Whether the lock is ours; after any trouble it is taken anew, or left to the beat that has it."""
        if self._has_lock:
            return True
        if self.lock is None:
            lock = self._redis.lock(self.lock_key, timeout=self.lock_timeout)
            # redis-py's own would add to the time that is left.
            lock.lua_extend = self._redis.register_script(redbeat_schedulers.LUA_EXTEND_TO_SCRIPT)
            self.lock = lock
        if self.lock.owned():
            self._has_lock = True
        elif self.lock.acquire(blocking=False):
            self._has_lock = True
            logger.info("beat has the lock")
        elif self._redis.pttl(self.lock_key) > self.lock_timeout * 1000:
            # Redis' clock went back, and the lock's end stayed where it was; a live holder extends it again.
            self._redis.pexpire(self.lock_key, int(self.lock_timeout * 1000))
        return self._has_lock

    def _mend_schedule(self) -> None:
        """Write entries that Redis has lost; make due what a clock that went back has left in the future."""
        for name, definition in self.app.conf.beat_schedule.items():
            key = self.Entry.generate_key(self.app, name)
            due_at = self._redis.zscore(self.app.redbeat_conf.schedule_key, key)
            if due_at is None:
                logger.warning("Redis has lost the schedule: it is written again", extra={"entry": name})
                super().setup_schedule()
                continue
            latest = to_timestamp(self.app.now()) + float(definition["schedule"]) + self.max_interval
            if due_at > latest:
                logger.warning("the clock went back: the schedule is begun anew", extra={"entry": name})
                self.Entry.from_key(key, app=self.app).reschedule()


@beat_init.connect  # type: ignore[untyped-decorator]
def obey_hang_ups(sender: Any, **_: object) -> None:
    """On SIGHUP the configuration is read anew, in the loop and not in the middle of it."""

    def ask(*_: object) -> None:
        sender.scheduler.is_reload_asked = True

    signal.signal(signal.SIGHUP, ask)


@beat_init.connect  # type: ignore[untyped-decorator]
def be_looked_after(sender: Any, **_: object) -> None:
    """The loop begins: see the scheduler."""
    sender.scheduler.be_looked_after()
