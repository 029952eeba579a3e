"""Celery's events, sent once or not at all.

Celery tries a worker's heartbeat again for ever, under a lock that each task's event and the shutdown wait
for: while Redis was away no worker could be stopped. Events are for looking on (Flower); nothing rests on
them.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


class SturdyDispatcher(EventDispatcher):  # type: ignore[misc]
    """Drops what can't be sent at once."""

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
