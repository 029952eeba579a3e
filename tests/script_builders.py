"""Event scripts for tests of replay, as decoded JSON in the vectors' schema."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

VM: Json = {
    "cpu_m": {"min": 250, "use": 1000, "max": 4000},
    "mem": {"min": 1, "use": 4, "max": 16},
    "slot_bytes": 2**30,
    "scaling_config": None,
}
CONFIG: Json = {
    "default_scaling_config": {"load_average_fraction_target": 0.5, "memory_usage_fraction_target": 0.5},
    "platform_retry_wait_ms": 3000,
    "plugin_request_tick_ms": 5000,
    "plugin_retry_wait_ms": 2000,
    "plugin_denied_retry_wait_ms": 4000,
    "monitor_denied_downscale_cooldown_ms": 8000,
    "monitor_downscale_follow_up_wait_ms": 1500,
    "monitor_requested_upscale_valid_period_ms": 10000,
    "monitor_retry_wait_ms": 2500,
}
USE: Json = {"cpu_m": 1000, "mem": 4}
UNIT: Json = {"cpu_m": 250, "mem": 1}


def an_event(op: str, now_ms: int = 1000, **fields: object) -> Json:
    return {"op": op, "now_ms": now_ms, **fields}


def a_new(now_ms: int = 1000, **fields: object) -> Json:
    return an_event("new", now_ms, vm=VM, config=CONFIG, **fields)


def a_script(*events: Json, expects: dict[int, Json] | None = None, script_id: str = "s1") -> Json:
    """A script of these events; `expects` by the number of the step."""
    steps: list[Json] = [{"event": event} for event in events]
    for index, expect in (expects or {}).items():
        steps[index]["expect"] = expect
    return {"id": script_id, "steps": steps}


def settled() -> list[Json]:
    """A VM whose scheduler has answered and whose monitor is active."""
    return [
        a_new(),
        an_event("plugin.new_scheduler"),
        an_event("monitor.active", active=True),
        an_event("plugin.starting", resources=USE),
        an_event("plugin.success", permit=USE, compute_unit=UNIT),
    ]
