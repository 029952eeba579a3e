"""The metrics of the agent whose names dashboards know already (`spec/agent.md`, "Prometheus metrics")."""

from __future__ import annotations

from app.protocols.metric_families import Counter, Family, Reading

DIRECTIONS = ("inc", "dec")
STATES = ("ok", "stuck", "errored", "panicked")
OUTCOMES = ("ok", "timeout", "unreachable", "refused", "unreadable", "lease_lost")
"""How a request ended; `lease_lost`: we may not ask any more."""

CODES = ("200", "400", "404", "409", "429", "500", "503", "timeout", "unreachable", "refused", "unreadable")
"""How a request for a permit ended: its status, or why there is none; `refused`: with another status."""

_PREFIX = "autoscaling_agent_"
_CHANGE = {"direction": DIRECTIONS}


def _change(name: str, what: str, memory: str = "mem_change_total") -> tuple[Counter, Counter]:
    return (
        Counter(f"{_PREFIX}{name}_cpu_change_total", f"CPUs by which {what}", _CHANGE),
        Counter(f"{_PREFIX}{name}_{memory}", f"MiB by which {what}", _CHANGE),
    )


SCHEDULER_REQUESTS = Counter(
    f"{_PREFIX}scheduler_plugin_requests_total", "questions to the scheduler, by their end", {"code": CODES}
)
SCHEDULER_REQUESTED = _change("scheduler_plugin_requested", "permits asked for differ from the last permit")
SCHEDULER_ACCEPTED = _change("scheduler_plugin_accepted", "permits given differ from the last permit")
MONITOR_REQUESTED = _change("monitor_requested", "monitors were asked, or told, to change")
MONITOR_APPROVED = _change("monitor_approved", "monitors agreed to change")
NEONVM_REQUESTED = _change("neonvm_requested", "the platform was asked to change VMs", "mem_changed_total")

MONITOR_OUTBOUND = Counter(
    f"{_PREFIX}monitor_outbound_requests_total",
    "requests to monitors, by their end; a downscale that is denied is answered: ok",
    {"endpoint": ("DownscaleRequest", "UpscaleNotification", "HealthCheck"), "code": OUTCOMES},
)
MONITOR_INBOUND = Counter(
    f"{_PREFIX}monitor_inbound_requests_total",
    "requests from monitors; too_many: within a second of the last one, left alone",
    {"endpoint": ("UpscaleRequest",), "code": ("ok", "too_many", "not_active")},
)
NEONVM_OUTBOUND = Counter(
    f"{_PREFIX}neonvm_outbound_requests_total",
    "sizes asked for at the platform, by the end of the request",
    {"result": OUTCOMES},
)
NEXT_ACTIONS = Counter(f"{_PREFIX}runner_next_actions_total", "times that the decision core was asked")

RUNNERS = Reading(
    f"{_PREFIX}runners_current",
    "VMs of this worker, by the state of their runner",
    {"is_endpoint": ("false", "true"), "state": STATES},
)
FATAL_ERRORS = Reading(
    f"{_PREFIX}runner_fatal_errors_total", "runs of runners that ended by a known error", kind="counter"
)
PANICS = Reading(f"{_PREFIX}runner_thread_panics_total", "runs that ended by a bug of ours", kind="counter")
STARTS = Reading(f"{_PREFIX}runner_starts", "runs of runners that began", kind="counter")
RESTARTS = Reading(f"{_PREFIX}runner_restarts", "runs that followed a failed one", kind="counter")

AGENT_FAMILIES: tuple[Family, ...] = (
    SCHEDULER_REQUESTS,
    *SCHEDULER_REQUESTED,
    *SCHEDULER_ACCEPTED,
    *MONITOR_REQUESTED,
    *MONITOR_APPROVED,
    *NEONVM_REQUESTED,
    MONITOR_OUTBOUND,
    MONITOR_INBOUND,
    NEONVM_OUTBOUND,
    NEXT_ACTIONS,
    RUNNERS,
    FATAL_ERRORS,
    PANICS,
    STARTS,
    RESTARTS,
)
"""In the order of the page; those of each VM follow (`app.services.vm_series`)."""
