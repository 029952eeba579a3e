"""What we add to `billing`: more sinks, bounds, and what lets us in (docs/billing.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.config.fields import Seconds, Section, Text, setting
from app.config.security_section import PeerSecurity
from app.config.sink_sections import FileSinkSettings, S3SinkSettings


class MeteringSettings(Section):
    """Beside `billing`, and only with it: bounds of what is counted and kept, and more sinks."""

    max_gap_seconds: Seconds = setting(
        45.0, "time between two looks at a VM that is billed at most; of a longer gap, nothing is", "s"
    )
    max_outbox_events: Annotated[int, Field(ge=100, le=10_000_000)] = setting(
        20_000, "events of a bucket that wait for a sink; then windows grow longer instead"
    )
    http: PeerSecurity = setting(PeerSecurity(), "the server at `billing.url`")
    s3: S3SinkSettings | None = setting(None, "a second sink: S3")
    file: FileSinkSettings | None = setting(None, "another sink: files")
    journal: Text | None = setting(
        None, "file to which each slice is appended as a JSON line before it is written; for tests"
    )
