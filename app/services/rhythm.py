"""How well the rhythm is kept: how late each tick of a bucket begins, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.ports.own_metrics import TICK_DURATION, TICK_LATENESS, TICKS
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken
from app.services.agent_settings import AgentSettings
from app.services.guarding import Guard
from app.services.runner import Runner


class Rhythm:
    """Measures the ticks of a worker's buckets.

    A tick is due a period after the one before it began, under the same lease: the first one of an owner is
    late for nothing.
    """

    def __init__(self, clock: Clock, settings: AgentSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._begun: dict[BucketName, tuple[FencingToken, float]] = {}

    @contextmanager
    def tick(self, runners: Sequence[Runner], guard: Guard) -> Iterator[None]:
        """One tick of these runners' bucket, as long as the block; one that ends by an error is cut short."""
        began = self._clock.monotonic()
        end = "cut_short"
        if runners:
            self._note_begin(runners[0].bucket, guard.token, began)
        try:
            yield
            end = "done"
        finally:
            TICKS.add(end)
            TICK_DURATION.observe(self._clock.monotonic() - began)

    def _note_begin(self, bucket: BucketName, token: FencingToken, began: float) -> None:
        before, self._begun[bucket] = self._begun.get(bucket), (token, began)
        if before is not None and before[0] == token:
            TICK_LATENESS.observe(began - before[1] - self._settings.poll_period_s)
