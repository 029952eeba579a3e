"""Beat's scheduler: RedBeat, that tells the registry of each stretch of progress it has made.

A standby waits for RedBeat's lock and says nothing; what `status` shows is the beat that gives the rhythm.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import Any

from redbeat import RedBeatScheduler

from app import __version__
from app.bootstrap.stores import Stores
from app.services.announcing import ANNOUNCE_EVERY_S, Announcement


class AnnouncingScheduler(RedBeatScheduler):  # type: ignore[misc]
    """RedBeat with an entry in the registry, refreshed from the loop that sends the ticks."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
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

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; seconds until the next look."""
        pause: float = super().tick(*args, **kwargs)
        now = time.monotonic()
        if now - self._announced >= ANNOUNCE_EVERY_S:
            self._announced = now
            self._announcement.refresh()
        return pause
