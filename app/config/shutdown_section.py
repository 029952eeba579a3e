"""The section about the end of our processes (`docs/operations.md`)."""

from __future__ import annotations

from app.config.fields import Seconds, Section, setting


class ShutdownSettings(Section):
    """How a process ends after SIGTERM or SIGINT; a second signal ends it at once."""

    grace_period_seconds: Seconds = setting(
        20.0,
        "for handing over, saving and leaving; then the process is ended. Below the patience of whoever "
        "keeps it (systemd, Kubernetes)",
        "s",
    )
