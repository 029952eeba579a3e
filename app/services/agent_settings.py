"""Times and limits of a worker's services, in the units that they use."""

from __future__ import annotations

from dataclasses import dataclass, fields

from app.core.model import CoreConfig
from app.core.resources import Resources

MAX_SCALING_TASKS = 64
"""Scaling tasks sent and not ended, a worker; counted by the owner before it sends."""

MAX_POLLS = 32
"""Polls at once a worker, those that wait long for their peer not counted."""

MAX_SLOW_POLLS = 1000
"""Polls that have waited over `SLOW_POLL_S` for their peer."""

SLOW_POLL_S = 0.2
"""After this long a poll counts as slow and frees its place."""

COMMIT_EVERY_VMS = 50
"""A batch of polled VMs is committed at this size, or after `COMMIT_EVERY_S`."""

COMMIT_EVERY_S = 0.1


@dataclass(slots=True)
class AgentSettings:
    """What the services of a worker need of the configuration.

    All services of a worker have the same one, and read it when they use it: what a running worker takes over
    is changed in place, between two of their waits.

    Attributes:
        worker: the worker's name, as shown in records and audit trails.
        poll_period_s: seconds between two polls of a VM.
        metrics_prefix: `node_` or `host_`.
        scheduler_timeout_s: 0: only the lease limits a request.
        apply_timeout_s: how long an accepted size may take to be observed.
        silence_s: a monitor silent for longer makes its VM stuck.
        grace_s: the same, from the runner's start.
        compute_unit: unit used where no scheduler told one (observe mode).
    """

    worker: str
    core: CoreConfig
    poll_period_s: float
    metrics_timeout_s: float
    metrics_prefix: str
    scheduler_timeout_s: float
    platform_timeout_s: float
    apply_timeout_s: float
    monitor_connect_timeout_s: float
    monitor_response_timeout_s: float
    monitor_retry_min_wait_s: float
    silence_s: float
    grace_s: float
    compute_unit: Resources
    restart_min_wait_s: float = 5.0
    restart_max_wait_s: float = 10.0

    def take_over(self, newer: AgentSettings) -> None:
        """Have the values of `newer`, for everybody who has these."""
        for field in fields(self):
            setattr(self, field.name, getattr(newer, field.name))
