"""The end of a worker: Celery's warm shutdown, in which the agent hands over, within the grace period."""

from __future__ import annotations

from typing import Any

from celery import bootsteps


class EndingStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Bounds what Celery's handlers of SIGTERM and SIGINT begin; they have been installed before any step."""

    requires = ("workers.steps:AgentStep",)

    def start(self, worker: Any) -> None:
        """From now on."""
        from app.adapters.ending import end_within

        end_within(worker.app.vmscaler_settings.shutdown.grace_period_seconds)
