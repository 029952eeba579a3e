"""The bell of the stats: they wait in Redis beside the bucket's queue, and this task tells its owner so."""

from __future__ import annotations

from app.ports.store import BucketName
from workers.celery_app import app


@app.task(name="vmscaler.stats", send_events=False)  # type: ignore[untyped-decorator]
def stats(bucket: str, **newer: object) -> None:
    """Read the bucket's stats; where another worker has it by now, that one has read them at its start."""
    app.vmscaler_agent.read_stats(BucketName(bucket))
