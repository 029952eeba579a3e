"""What billing and notices cost: microseconds of CPU for each VM, over a real Redis."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from app.adapters.embedded_redis import start_embedded
from app.adapters.redis_billing import RedisBilling
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.metering.meter import MeterId
from app.ports.store import FencingToken
from app.services.bucket_meters import BucketMeters, MeterRules, Moment, Seen
from app.services.notices import NoticeRules, VmNotices
from app.services.usage_events import MetricNames, UsageEvents
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET, a_runner, load_of

VMS = 2_000

Measure = Callable[[Callable[[], object], int], float]
"""Microseconds of CPU for one call, of so many."""


def billing_rows(measure: Measure) -> list[tuple[str, float]]:
    """A note, a note that ends a window, and a look for notices."""
    with tempfile.TemporaryDirectory(prefix="vmscaler-bench-") as directory:
        redis = start_embedded(Path(directory))
        try:
            store = RedisBilling(RedisConnection(redis.url), RedisKeys("bench"))
            rules = MeterRules(("http",), max_gap_ms=45_000, max_waiting=10**9)
            meters = BucketMeters(BUCKET, FencingToken(1), store, rules)
            events = UsageEvents(FakeClock(), "host", MetricNames("cpu", "active"))
            vms = [MeterId(f"ns/vm-{n}", f"uid-{n}", f"ep-{n}") for n in range(VMS)]
            seen, times = Seen(dict.fromkeys(vms, 1_000)), (Moment(ms, ms) for ms in count(1_000, 4_000))
            meters.settle()
            meters.advance(next(times), seen, None)
            noted = measure(lambda: meters.advance(next(times), seen, None), 3) / VMS
            closed = measure(lambda: meters.advance(next(times), seen, events), 3) / VMS
        finally:
            redis.stop()
    return [
        ("note of a VM for billing", noted),
        ("… that ends a window", closed),
        ("look for notices", _look(measure)),
    ]


def _look(measure: Measure) -> float:
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(2))
    runner.decide()
    rules = NoticeRules(300, 120, 20, 30, flap_changes=6, flap_s=600)
    notices, times = VmNotices(rules), count(0.0, 2.0)
    return measure(lambda: notices.look(runner, next(times)), 2_000)
