"""Names in scaling events, as sinks, webhooks and their templates know them (docs/events.md)."""

from __future__ import annotations

from collections.abc import Mapping

from app.protocols.webhook import Value

NOTICES = ("at_maximum", "stays_denied", "flaps", "not_resized")
"""Kinds that begin and end."""

KINDS = (
    "upscale",
    "downscale",
    "changed",
    "desired",
    "denied",
    "permit_refused",
    "failed",
    "not_applied",
    *NOTICES,
)
"""What may be told."""

SIZES = ("from", "to", "desired", "actual")
"""Each `{"cpu_m", "memory_bytes"}`, or null."""

TEMPLATE_NAMES: Mapping[str, Value] = {
    "id": "2026-01-01T00:00:00.000000Z-0",
    "kind": "upscale",
    "state": "began",
    "time": "2026-01-01T00:00:00.000000Z",
    "vm": "default/db",
    "namespace": "default",
    "name": "db",
    "uid": "1",
    "endpoint_id": "ep-1",
    "node": "node-1",
    "why": "the load asks for more",
    "worker": "worker1",
    "text": "default/db: upscale",
    **{f"{size}_{what}": 1 for size in SIZES for what in ("cpu_m", "memory_bytes")},
}
"""What a webhook's template may insert, with examples; of sizes that are not known, 0."""
