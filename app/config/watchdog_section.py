"""The section about the watchdog: how long a worker may be without progress (`docs/redis.md`)."""

from __future__ import annotations

from app.config.fields import LimitSeconds, Section, setting


class WatchdogSettings(Section):
    """Ends a worker that makes no progress, so that it is started again; counted in its own turns of 1 s."""

    loop_blocked_seconds: LimitSeconds = setting(
        15.0, "a worker in which nothing else gets a turn for this long is ended; 0: never", "s"
    )
    no_tasks_seconds: LimitSeconds = setting(
        20.0,
        "a worker that ends no task for this long while its queues hold some, and Redis answers, is ended; "
        "0: never",
        "s",
    )
