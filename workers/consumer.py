"""Celery's consumer, with short pauses between attempts to reach Redis and one line per change in the log.

Celery waits up to 30 s between two attempts, and writes a line or two for each.
"""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any

from celery.exceptions import CPendingDeprecationWarning
from celery.worker import pidbox
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown

from workers.trouble import Trouble

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGER_BY_S, LONGEST_PAUSE_S = 1, 1, 5
"""Between two attempts to connect, s; the longest bounds how long a Redis that is back goes unnoticed."""

SETTLED_AFTER_S = 5.0
"""A connection that lasted so long was a good one: the next attempt after its loss is made at once."""

NOISY = (
    "celery.worker.consumer.consumer",
    "celery.worker.consumer.connection",
    "celery.worker.pidbox",
    "celery.worker.request",
)
"""Loggers that say again and again what the consumer says itself, or a line for each tick that is old."""


class SturdyConsumer(Consumer):  # type: ignore[misc]
    """The consumer of a worker; goes on for ever, whatever Redis does.

    Without mingle and gossip: each worker's view of the others comes from the registry, and both are in the
    way when Redis is (a second's wait at each start, a reply queue that a full Redis refuses).
    """

    def __init__(self, *args: Any, worker_options: dict[str, Any] | None = None, **options: Any) -> None:
        self._trouble = Trouble(logger, "the broker is out of reach", "the broker is back")
        self._ready_at = time.monotonic()
        self._losses = 0
        quiet = {**(worker_options or {}), "without_mingle": True, "without_gossip": True}
        # About tasks that are acknowledged late, at each loss of the connection: there are none here.
        warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
        super().__init__(*args, worker_options=quiet, **options)

    def ensure_connected(self, conn: Any) -> Any:
        """A connection that stands; tried until it does, or until the worker is to stop."""
        conn.ensure_connection(
            lambda err, interval: self._trouble.has(err),
            None,
            interval_start=FIRST_PAUSE_S,
            interval_step=LONGER_BY_S,
            interval_max=LONGEST_PAUSE_S,
            callback=maybe_shutdown,
        )
        self.first_connection_attempt = False
        return conn

    def on_ready(self) -> None:
        """The queues are consumed (again)."""
        super().on_ready()
        self._ready_at = time.monotonic()
        self._trouble.is_over()

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Not connected, and not by being refused: another try, after a pause."""
        self._trouble.has(exc)
        self._pause()

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """The connection is lost, or what is sent over it is refused: begin anew, each time a bit later."""
        self._trouble.has(exc)
        super().on_connection_error_after_connected(exc)
        self._pause()

    def _pause(self) -> None:
        now = time.monotonic()
        self._losses = 0 if now - self._ready_at > SETTLED_AFTER_S else self._losses + 1
        self._ready_at = now
        time.sleep(min(self._losses * LONGER_BY_S, LONGEST_PAUSE_S))


class SturdyPidbox(pidbox.gPidbox):  # type: ignore[misc]
    """Remote control that begins anew when its connection fails; Celery's ends then, without a word."""

    def loop(self, c: Any) -> None:
        """See Celery; runs until the consumer goes down."""
        trouble = Trouble(logger, "remote control is out of reach", "remote control is back")
        ours = c.connection
        while c.connection is ours:
            try:
                super().loop(c)
            except (*c.connection_errors, *c.channel_errors) as err:
                trouble.has(err)
                time.sleep(FIRST_PAUSE_S)
            else:
                return


def use_sturdy_remote_control() -> None:
    """Let green workers of this process answer remote control through `SturdyPidbox`."""
    pidbox.gPidbox = SturdyPidbox
