"""kombu's Redis transport, that drops what is no message instead of ending the worker.

Whoever can write to a queue can write anything: one bad message must not stop the scaling of a bucket.
"""

from __future__ import annotations

import json
import logging
from queue import Empty
from typing import Any

from kombu import transport
from kombu.transport import redis

logger = logging.getLogger(__name__)

_PLACE = "workers.transport:SturdyTransport"


class SturdyChannel(redis.Channel):
    """A channel whose reader outlives an entry that is no JSON."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as err:
            logger.error("message dropped: no JSON", extra={"reason": type(err).__name__})
            raise Empty from err


class SturdyTransport(redis.Transport):
    """A transport that hands on only what has the shape of a message."""

    Channel = SturdyChannel

    def _deliver(self, message: Any, queue: str) -> None:
        if not _is_message(message):
            logger.error("message dropped: not the shape of one", extra={"queue": queue})
            return
        super()._deliver(message, queue)  # type: ignore[no-untyped-call]


def use_sturdy_transport() -> None:
    """Let `redis://`, `rediss://` and `redis+socket://` addresses mean this transport in this process."""
    transport.TRANSPORT_ALIASES["redis"] = _PLACE
    transport.TRANSPORT_ALIASES["rediss"] = _PLACE


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("body"), str):
        return False
    properties = message.get("properties")
    return (
        isinstance(message.get("headers"), dict)
        and isinstance(properties, dict)
        and isinstance(properties.get("delivery_info"), dict)
        and isinstance(properties.get("delivery_tag"), str)
    )
