"""The section about traces (`docs/logging.md`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.config.addresses import HttpUrl
from app.config.fields import Number, Section, setting


class TracingSettings(Section):
    """Traces by OpenTelemetry, from a tick to the resize that it led to (`docs/logging.md`)."""

    enabled: bool = setting(False, "workers make traces; needs the packages of the extra `otel`")
    endpoint: HttpUrl = setting(
        "http://127.0.0.1:4318", "the collector: OTLP over HTTP, at <endpoint>/v1/traces"
    )
    sample_ratio: Annotated[Number, Field(ge=0, le=1)] = setting(1.0, "share of the traces that are made")
