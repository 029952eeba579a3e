"""Metrics that are ours: rhythm, resizes, leases, Redis, stats, tasks (`docs/metrics.md`)."""

from __future__ import annotations

from app.ports.agent_metrics import OUTCOMES
from app.protocols.metric_families import Counter, Family, Histogram, Reading

TASKS = ("tick", "poll_bucket", "upscale", "downscale", "stats")
"""Our Celery tasks, without `vmscaler.`."""

FATES = ("taken", "received", "refused", "accepted", "forwarded", "late", "dropped", "returned")
"""What becomes of stats, as the forwarder counts it."""

SINKS = ("http", "s3", "file")
"""Where billing's events go."""

MINUTES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MILLISECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

TICKS = Counter("vmscaler_ticks_total", "ticks of buckets that were polled", {"end": ("done", "cut_short")})
TICK_LATENESS = Histogram(
    "vmscaler_tick_lateness_seconds", "time from when a bucket's tick was due until it began"
)
TICK_DURATION = Histogram(
    "vmscaler_tick_duration_seconds", "time from a tick's begin until all its VMs are polled and committed"
)
POLLS = Counter("vmscaler_polls_total", "metrics pages of VMs that were asked for")
POLLS_SKIPPED = Counter("vmscaler_polls_skipped_total", "VMs whose earlier poll was not over")
POLL_FAILURES = Counter(
    "vmscaler_poll_failures_total",
    "polls that gave no usable sample, by reason",
    {"reason": tuple(outcome for outcome in OUTCOMES if outcome != "ok")},
)
APPLIED = Histogram(
    "vmscaler_resize_applied_seconds",
    "time from when a size was asked for until it was observed, or given up",
    {"kind": ("upscale", "downscale"), "end": ("observed", "not_applied")},
    bounds=MINUTES,
)
LATENCY = Histogram(
    "vmscaler_resize_latency_seconds",
    "time from the decision to change a size until it was observed, or given up: queue, permit, monitor too",
    {"kind": ("upscale", "downscale"), "end": ("observed", "not_applied")},
    bounds=MINUTES,
)
DENIED = Counter("vmscaler_downscales_denied_total", "downscales that a monitor, or the last sample, denied")

BUCKETS = Reading("vmscaler_buckets", "buckets of the fleet, held or not")
LEASES_HELD = Reading("vmscaler_leases_held", "buckets that this worker holds")
LEASES_TAKEN = Counter("vmscaler_leases_taken_total", "buckets taken and begun")
LEASES_LOST = Counter(
    "vmscaler_leases_lost_total",
    "leases that ended other than by being handed over",
    {"reason": ("not_renewed", "other_holder", "newer_owner")},
)
TAKE_OVER = Histogram(
    "vmscaler_lease_take_over_seconds", "time from asking for a free bucket until its runners have begun"
)
MONITORS = Reading("vmscaler_monitor_connections", "monitors that this worker is connected to")
QUEUED = Reading(
    "vmscaler_queue_waiting",
    "tasks that wait, by queue; buckets: those that this worker holds, together",
    {"queue": ("shared", "buckets")},
)
REDIS_TRIPS = Histogram(
    "vmscaler_redis_round_trip_seconds",
    "time of a round trip to Redis, Celery's own left out",
    {"kind": ("script", "command", "transaction"), "result": ("ok", "failed")},
    bounds=MILLISECONDS,
)
STATS = Reading(
    "vmscaler_stats_total",
    "stats; taken + received = accepted + forwarded + late + dropped + returned + inbox",
    {"fate": FATES},
    kind="counter",
)
STATS_INBOX = Reading("vmscaler_stats_inbox", "stats taken that have no fate yet")
STAT_RETRIES = Counter("vmscaler_stat_retries_total", "tries of stats that failed, to be made again")
CELERY_TASKS = Counter(
    "vmscaler_celery_tasks_total",
    "tasks, by their end; too_late: past its expiry when it was taken from the queue",
    {"task": TASKS, "end": ("succeeded", "failed", "too_late")},
)
BILLING = Reading(
    "vmscaler_billing_events_total",
    "usage events that a sink took; failed: tries that it did not",
    {"sink": SINKS, "end": ("sent", "failed")},
    kind="counter",
)
BILLING_WAITING = Reading(
    "vmscaler_billing_events_waiting", "usage events of this worker's buckets that wait", {"sink": SINKS}
)
BILLING_DROPPED = Reading(
    "vmscaler_billing_events_dropped_total", "usage events that were given up", kind="counter"
)
EVENTS = Reading(
    "vmscaler_scaling_events_total",
    "scaling events that a sink or webhook took, that were dropped; failed: tries that it did not take",
    {"end": ("sent", "failed", "dropped")},
    kind="counter",
)
EVENTS_WAITING = Reading("vmscaler_scaling_events_waiting", "scaling events of this worker that wait")
JOBS = Reading("vmscaler_jobs", "greenlets of the worker's services that run or wait")
PROBLEMS = Reading("vmscaler_problems", "problems that `vmscaler status` shows of this process")
PAGE_TIME = Reading(
    "vmscaler_metrics_page_seconds", "what it took to make the page before this one, pauses included"
)

BEAT_LEADS = Reading("vmscaler_beat_leads", "1: this beat gives the rhythm; 0: it stands by")
BEAT_TURNS = Reading("vmscaler_beat_turns_total", "turns of beat's loop", kind="counter")
BEAT_SENT = Counter(
    "vmscaler_beat_ticks_total",
    "ticks; held_back: as many as may wait in the queue do",
    {"end": ("sent", "held_back")},
)
PERMITS = Reading(
    "vmscaler_permits_total",
    "questions for permits that the built-in scheduler answered",
    {"answer": ("granted", "refused")},
    kind="counter",
)
SCHEDULED_VMS = Reading("vmscaler_scheduler_vms", "VMs that the built-in scheduler knows of")

WORKER_FAMILIES: tuple[Family, ...] = (
    TICKS,
    TICK_LATENESS,
    TICK_DURATION,
    POLLS,
    POLLS_SKIPPED,
    POLL_FAILURES,
    APPLIED,
    LATENCY,
    DENIED,
    BUCKETS,
    LEASES_HELD,
    LEASES_TAKEN,
    LEASES_LOST,
    TAKE_OVER,
    MONITORS,
    QUEUED,
    REDIS_TRIPS,
    STATS,
    STATS_INBOX,
    STAT_RETRIES,
    CELERY_TASKS,
    BILLING,
    BILLING_WAITING,
    BILLING_DROPPED,
    EVENTS,
    EVENTS_WAITING,
    JOBS,
    PROBLEMS,
    PAGE_TIME,
)
BEAT_FAMILIES: tuple[Family, ...] = (BEAT_LEADS, BEAT_TURNS, BEAT_SENT, REDIS_TRIPS, PROBLEMS, PAGE_TIME)
SCHEDULER_FAMILIES: tuple[Family, ...] = (PERMITS, SCHEDULED_VMS, REDIS_TRIPS, PROBLEMS, PAGE_TIME)
