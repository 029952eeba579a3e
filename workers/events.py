"""Celery's events, sent once or not at all, those of tasks a moment later and many at once.

Celery tries a worker's heartbeat again for ever, under a lock that each task's event and the shutdown wait
for: while Redis was away no worker could be stopped. Events are for looking on (Flower); nothing rests on
them. Each task has three, and a message for each was a tenth of a worker's CPU; Celery gathers them in
pools of processes only.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

GATHER_S = 0.25
"""How long the event of a task may wait for others."""
MOST = 100
"""Events of tasks in a message."""


class SturdyDispatcher(EventDispatcher):  # type: ignore[misc]
    """Drops what can't be sent at once; other events take those of tasks along, so that order is kept."""

    def __init__(self, *args: Any, **named: Any) -> None:
        gathering = {"buffer_group": ["task"], "buffer_limit": MOST, "on_send_buffered": self._flush_soon}
        super().__init__(*args, **named | gathering)
        self._is_flush_due = False

    def send(self, type: str, *args: Any, **fields: Any) -> None:
        """See Celery's."""
        if not type.startswith("task-"):
            self.flush()
        super().send(type, *args, **fields)

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            timer = threading.Timer(GATHER_S, self._flush_now)
            timer.daemon = True
            timer.start()

    def _flush_now(self) -> None:
        self._is_flush_due = False
        self.flush()

    def _publish(self, event: Any, producer: Any, routing_key: str, **_: Any) -> None:
        # Kept for later they would pile up, and say what is long over.
        self.buffer_while_offline = False
        try:
            super()._publish(event, producer, routing_key, retry=False)
        except (KombuError, RedisError, OSError) as err:
            logger.debug("event not sent", extra={"reason": type(err).__name__})


class SturdyEvents(Events):  # type: ignore[misc]
    """`app.events` with our dispatcher."""

    dispatcher_cls = "workers.events:SturdyDispatcher"
