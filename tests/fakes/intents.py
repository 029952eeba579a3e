"""Operators' intents in memory."""

from __future__ import annotations

from collections.abc import Sequence

from app.ports.runtime import Clock
from app.ports.store import BucketName, Intent


class MemoryIntents:
    """An `IntentStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._intents: dict[tuple[BucketName, str, str], Intent] = {}

    def put(self, bucket: BucketName, intent: Intent) -> None:
        self._intents[bucket, intent.target, intent.kind] = intent

    def remove(self, bucket: BucketName, target: str, kind: str) -> bool:
        return self._intents.pop((bucket, target, kind), None) is not None

    def list(self, bucket: BucketName) -> Sequence[Intent]:
        now = self._clock.wall_ms()
        standing = [
            intent
            for (of, _, _), intent in self._intents.items()
            if of == bucket and (intent.until_ms is None or intent.until_ms > now)
        ]
        return sorted(standing, key=lambda intent: (intent.target, intent.kind))
