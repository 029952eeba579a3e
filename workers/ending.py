"""The end of a worker: Celery's warm shutdown, in which the agent hands over, within the grace period."""

from __future__ import annotations

import signal
from typing import Any

from celery import bootsteps


class EndingStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Bounds what Celery's handlers of SIGTERM and SIGINT begin; they have been installed before any step."""

    requires = ("workers.steps:AgentStep",)

    def start(self, worker: Any) -> None:
        """From now on."""
        from app.adapters.ending import end_within

        # Celery's own for SIGINT ends the same way, and then with status 1, as if something had failed.
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
        end_within(worker.app.vmscaler_settings.shutdown.grace_period_seconds)
