"""How processes end: a worker hands over within the grace period; one that is wrongly configured says why."""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

from celery import bootsteps

EXIT_CONFIGURATION = 2
"""What keeps processes doesn't start one again that ended so (`docs/operations.md`)."""


def refuse(text: str) -> NoReturn:
    """End a process that can't work as it is configured, with the reasons on standard error."""
    print(text, file=sys.stderr)  # noqa: T201 - before logging is set up
    sys.exit(EXIT_CONFIGURATION)


class EndingStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Bounds what Celery's handlers of SIGTERM and SIGINT begin; they have been installed before any step."""

    requires = ("workers.steps:AgentStep",)

    def start(self, worker: Any) -> None:
        """From now on."""
        from app.adapters.ending import end_within

        # Celery's own for SIGINT ends the same way, and then with status 1, as if something had failed.
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
        end_within(worker.app.vmscaler_settings.shutdown.grace_period_seconds)
