"""The watchdog of a worker: a native thread that ends the process once it makes no progress.

Whoever keeps the workers (systemd, Kubernetes, `vmscaler demo`) starts it again; its leases expire meanwhile.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import bootsteps
from celery.signals import task_postrun, task_revoked

from app.services.progress import TURN_S, Progress, Watch

logger = logging.getLogger(__name__)

EXIT_NO_PROGRESS = 75
"""EX_TEMPFAIL of sysexits.h: the worker got stuck; starting it again helps."""


class WatchdogStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Counts the tasks that end, and starts the thread that watches."""

    requires = ("workers.steps:AgentStep",)

    def start(self, worker: Any) -> None:
        """Watch until the process ends."""
        from app.adapters.native_thread import end_process, start_native_thread

        progress: Progress = worker.vmscaler_agent.progress

        def count(**_: object) -> None:
            progress.task_ended()

        # Tasks that came too late count too: they are taken from the queue.
        task_postrun.connect(count, weak=False)
        task_revoked.connect(count, weak=False)
        watch = Watch(progress)

        def turn() -> bool:
            reason = watch.turn()
            if reason is not None:
                end_process(EXIT_NO_PROGRESS, f"{reason}; ended, to be started again")
            return progress.is_over

        start_native_thread(turn, TURN_S)
        logger.info(
            "watchdog watches",
            extra={"loop_blocked_s": progress.limits.blocked, "no_tasks_s": progress.limits.idle},
        )
