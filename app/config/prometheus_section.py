"""The section about our own metrics pages (`docs/metrics.md`)."""

from __future__ import annotations

from app.config.fields import Section, setting


class PrometheusSettings(Section):
    """Pages for Prometheus, `/metrics` of each process (`docs/metrics.md`)."""

    per_vm: bool = setting(
        True, "workers tell the sizes of each VM: up to 16 series for each, which a large fleet may not want"
    )
