"""Usage events as sinks take them, each with a key that is its own for ever (`spec/agent.md`, "Billing")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from app.metering.meter import Usage
from app.ports.runtime import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253_402_300_799_000
"""The last second of the year 9999; a clock beyond it is shown as that."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """What the two metrics are called."""

    cpu: str
    active_time: str


class UsageEvents:
    """Makes events.

    Args:
        host: part of every key; no two processes have the same, nor two runs of one.
    """

    def __init__(self, clock: Clock, host: str, names: MetricNames) -> None:
        self._clock = clock
        self._host = host
        self._names = names
        self._last_us = 0

    def make(self, used: Sequence[tuple[str, Usage]]) -> Iterator[tuple[bytes, bytes]]:
        """Two events for each endpoint id and usage: CPU-seconds and active seconds.

        Keys are `<UTC time with microseconds>-<host>-<n>/<count>`; no two batches have the same time.
        """
        self._last_us = max(self._clock.wall_ms() * 1000, self._last_us + 1)
        stamp = f"{moment_text(self._last_us)}-{self._host}"
        count = 2 * len(used)
        for index, (endpoint_id, usage) in enumerate(used):
            yield (
                self._event(
                    f"{stamp}-{2 * index + 1}/{count}", self._names.cpu, endpoint_id, usage, usage.cpu_s
                ),
                self._event(
                    f"{stamp}-{2 * index + 2}/{count}",
                    self._names.active_time,
                    endpoint_id,
                    usage,
                    usage.active_s,
                ),
            )

    def _event(self, key: str, metric: str, endpoint_id: str, usage: Usage, value: int) -> bytes:
        event = {
            "idempotency_key": key,
            "metric": metric,
            "type": "incremental",
            "endpoint_id": endpoint_id,
            "start_time": moment_text(usage.since_ms * 1000),
            "stop_time": moment_text(usage.until_ms * 1000),
            "value": value,
        }
        return json.dumps(event, separators=(",", ":")).encode()


@lru_cache(maxsize=1024)
def moment_text(micros: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    moment = _EPOCH + timedelta(microseconds=min(micros, _LATEST_MS * 1000))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
