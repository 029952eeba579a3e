"""kombu's Redis transport: reached in our way, outliving bad messages, refusals and half-open sockets.

Whoever can write to a queue can write anything: one bad message must not stop the scaling of a bucket.
A socket whose peer is gone without a word never becomes readable: each wait for an answer has an end here.
"""

from __future__ import annotations

import json
import logging
import time
from queue import Empty
from typing import Any, ClassVar

from kombu import transport
from kombu.transport import redis
from kombu.utils import functional
from redis.exceptions import ResponseError

from app.adapters.redis_access import HEALTH_CHECK_S, RedisAccess, redis_access
from app.config.redis_section import RedisSettings
from workers.trouble import Trouble

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
"""After a refusal of Redis (read-only, out of memory, no permission) before it is asked again."""

_PLACE = "workers.transport:SturdyTransport"
_SCHEMES = ("redis", "rediss", "sentinel")


class SturdyChannel(redis.Channel):
    """A channel whose reader outlives an entry that is no JSON, and a Redis that refuses to be read.

    Attributes:
        access: how Redis is reached; None: as kombu does it, by the broker's address.
    """

    access: ClassVar[RedisAccess | None] = None

    def __init__(self, *args: Any, **options: Any) -> None:
        self._trouble = Trouble(logger, "queues can't be read", "queues are read again")
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.access is None:
            return super()._connparams(asynchronous)  # type: ignore[no-untyped-call]
        made_of: Any = self.access.connection_class
        if asynchronous:
            made_of = _watched(made_of, self)
        return {**self.access.options, "max_connections": self.max_connections, "connection_class": made_of}

    def _brpop_read(self, **options: Any) -> Any:
        try:
            is_delivered = super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as err:
            logger.error("message dropped: no JSON", extra={"reason": type(err).__name__})
            raise Empty from err
        except ResponseError as err:
            self._trouble.has(err)
            # The next connection may reach another server: the master, after a fail-over.
            self.client.connection.disconnect()
            time.sleep(PAUSE_S)
            raise Empty from err
        except Empty:
            self._trouble.is_over()
            raise
        self._trouble.is_over()
        return is_delivered


class SturdyPoller(redis.MultiChannelPoller):
    """Ends waits for answers that are overdue; kombu does it for its event loop, which gevent has not.

    kombu looks after reading itself where a poll comes back empty, which it never does while others' messages
    keep coming in by publish and subscribe.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._look_at = 0.0

    def get(self, callback: Any, timeout: float | None = None) -> Any:
        """See kombu."""
        now = time.monotonic()
        if now >= self._look_at:
            # A look sends a ping, and counts one more as missing: not more often than they can be answered.
            self._look_at = now + HEALTH_CHECK_S
            self.maybe_check_subclient_health()  # type: ignore[no-untyped-call]
            self.maybe_check_brpop_health()  # type: ignore[no-untyped-call]
        return super().get(callback, timeout)  # type: ignore[no-untyped-call]


class SturdyTransport(redis.Transport):
    """A transport that hands on only what has the shape of a message."""

    Channel = SturdyChannel

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        # The option has set how long a BRPOP waits; as a pause after each, tasks would wait for it too.
        self.polling_interval = None
        self.cycle: Any = SturdyPoller()

    def _deliver(self, message: Any, queue: str) -> None:
        if not _is_message(message):
            logger.error("message dropped: not the shape of one", extra={"queue": queue})
            return
        super()._deliver(message, queue)  # type: ignore[no-untyped-call]


def use_sturdy_transport(settings: RedisSettings) -> None:
    """Let the broker's address mean this transport in this process, and this Redis.

    Raises:
        ConfigurationError: a file that the settings name can't be read.
    """
    SturdyChannel.access = redis_access(settings)
    # kombu takes its sleep as Celery's launcher starts, before gevent patches the process: each pause between
    # two attempts to connect would stop everything else in the worker.
    functional.sleep = time.sleep  # type: ignore[attr-defined]
    for scheme in _SCHEMES:
        transport.TRANSPORT_ALIASES[scheme] = _PLACE


def _watched(connection_class: type[Any], channel: Any) -> type[Any]:
    """Connections that tell the poller when they are closed; kombu's own way, for our classes."""

    class Watched(connection_class):  # type: ignore[misc]
        def disconnect(self, *args: Any, **options: Any) -> None:
            """See redis-py; the poller forgets the socket."""
            super().disconnect(*args, **options)
            if channel._registered:
                channel._on_connection_disconnect(self)

    return Watched


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
