"""Decisions as JSON, in the vectors' schema (`vectors/README.md`): for replay, records and commands."""

from __future__ import annotations

from app.core.actions import ActionSet, PluginRequest, Resize
from app.core.json_forms import Json, metrics_to_json, resources_to_json


def actions_json(actions: ActionSet) -> Json:
    """`plugin_request`, `platform_request`, `monitor_upscale`, `monitor_downscale`, `wait_ms`: what there is.

    Metrics are given as they came, in double precision.
    """
    found: Json = {}
    if actions.plugin is not None:
        found["plugin_request"] = _plugin_json(actions.plugin)
    for name, resize in (
        ("platform_request", actions.platform),
        ("monitor_upscale", actions.monitor_upscale),
        ("monitor_downscale", actions.monitor_downscale),
    ):
        if resize is not None:
            found[name] = _resize_json(resize)
    if actions.wait is not None:
        found["wait_ms"] = actions.wait
    return found


def _plugin_json(request: PluginRequest) -> Json:
    permit, metrics = request.last_permit, request.metrics
    return {
        "last_permit": None if permit is None else resources_to_json(permit),
        "target": resources_to_json(request.target),
        "metrics": None if metrics is None else metrics_to_json(metrics),
    }


def _resize_json(resize: Resize) -> Json:
    return {"current": resources_to_json(resize.current), "target": resources_to_json(resize.target)}
