"""What the daemon in a VM counts of itself, beside what it tells of its guest (`docs/metrics.md`)."""

from __future__ import annotations

from app.protocols.metric_families import Counter, Family, Histogram, Reading

RESIZE_KINDS = ("upscale", "downscale")

CONNECTED = Reading(
    "vmscaler_guest_monitor_connected", "1: an agent is connected to the vm-monitor; 0: none is"
)
CONNECTIONS = Counter(
    "vmscaler_guest_monitor_connections_total", "connections of agents to the vm-monitor, the handshake done"
)
MEMORY_REQUESTS = Counter(
    "vmscaler_guest_memory_requests_total", "requests for more memory that were sent to the agent"
)
RESIZES = Counter(
    "vmscaler_guest_resizes_total",
    "sizes that agents have told or asked for, by vm-monitor or informant; failed: a hook, or an error",
    {"kind": RESIZE_KINDS, "answer": ("agreed", "denied", "failed")},
)
HOOK_TIME = Histogram(
    "vmscaler_guest_hook_seconds", "time that a hook took", {"kind": RESIZE_KINDS, "result": ("ok", "failed")}
)
MEMORY_SAMPLES = Counter(
    "vmscaler_guest_memory_samples_total", "samples of the workload's memory", {"result": ("ok", "failed")}
)
AGENTS = Reading("vmscaler_guest_informant_agents", "agents that are registered with the informant")
REFUSED = Counter(
    "vmscaler_guest_refused_total",
    "callers that were turned away: not from an allowed network, without the token, one connection too many",
    {"reason": ("address", "token", "connections")},
)
OOM_AGE = Reading(
    "vmscaler_guest_oom_kill_age_seconds",
    "time since the kernel was seen to kill a process for want of memory; absent before one was",
)

GUEST_FAMILIES: tuple[Family, ...] = (
    CONNECTED,
    CONNECTIONS,
    MEMORY_REQUESTS,
    RESIZES,
    HOOK_TIME,
    MEMORY_SAMPLES,
    AGENTS,
    REFUSED,
    OOM_AGE,
)
