"""Beat's scheduler: RedBeat, that outlives a Redis that is away and tells the registry of its progress.

A standby waits for RedBeat's lock and says nothing; what `status` shows is the beat that gives the rhythm.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from types import SimpleNamespace
from typing import Any

from kombu.exceptions import KombuError
from redbeat import RedBeatScheduler
from redbeat.schedulers import acquire_distributed_beat_lock
from redis.exceptions import RedisError

from app import __version__
from app.bootstrap.stores import Stores
from app.services.announcing import ANNOUNCE_EVERY_S, Announcement

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 1.0
"""Pause after a look at a Redis that is away, or at a lock that another beat has."""

_AWAY = (RedisError, KombuError, OSError)


class AnnouncingScheduler(RedBeatScheduler):  # type: ignore[misc]
    """RedBeat with an entry in the registry, refreshed from the loop that sends the ticks.

    RedBeat itself ends at the first error of Redis, and with it the rhythm of the whole fleet. Here the lock
    is taken for lost then, and taken anew before the next tick: two beats never tick because of it.
    """

    def __init__(self, app: Any, **kwargs: Any) -> None:
        self._is_away = False
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
        self._announcement = Announcement(Stores(app.vmscaler_settings).agents, agent_id, lambda: facts)
        self._announced = float("-inf")

    def setup_schedule(self) -> None:
        """Write the entries; waits for a Redis that is not there yet."""
        while True:
            try:
                super().setup_schedule()
            except _AWAY as err:
                self._say_away(err)
                time.sleep(TRY_AGAIN_S)
            else:
                return

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; seconds until the next look."""
        try:
            if not self._has_lock():
                return TRY_AGAIN_S
            pause: float = super().tick(*args, **kwargs)
        except _AWAY as err:
            self._say_away(err)
            return TRY_AGAIN_S
        now = time.monotonic()
        if now - self._announced >= ANNOUNCE_EVERY_S:
            self._announced = now
            self._announcement.refresh()
        return pause

    def _has_lock(self) -> bool:
        """Whether the lock is ours; after an outage it is taken anew, or left to the beat that has it."""
        if self.lock is None:
            # Celery keeps quiet about a lock that could not be taken at the start.
            acquire_distributed_beat_lock(SimpleNamespace(scheduler=self))
        elif self._is_away and not self.lock.acquire(blocking=False):
            return False
        if self._is_away:
            self._is_away = False
            logger.info("beat goes on")
        return True

    def _say_away(self, err: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            logger.warning("beat stands still", extra={"reason": f"{type(err).__name__}: {err}"})
