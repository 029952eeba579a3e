"""Single operations of the polling path: microseconds of CPU each, and as a ratio to the first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.adapters.embedded_redis import start_embedded
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_state import RedisState
from app.core.decide import next_actions
from app.ports.store import FencingToken
from app.protocols.prometheus_text import read_sample
from app.services.record import build_write
from tests.bench.billing import billing_rows
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET, a_runner, a_virtual_machine, load_of

ROUNDS = 5


def a_page(size_bytes: int) -> bytes:
    """A page with the few names that count among many that don't."""
    line = b'node_cpu_seconds_total{cpu="7",mode="idle"} 123456.78\n'
    half = line * (size_bytes // len(line) // 2)
    sample = (
        b"node_load1 0.5\nnode_load15 0.3\nnode_load5 0.4\n"
        b"node_memory_MemAvailable_bytes 3e+09\nnode_memory_MemTotal_bytes 4e+09\n"
    )
    return half + sample + half


def cpu_us(operation: Callable[[], object], count: int) -> float:
    """The best of some rounds, in microseconds of CPU for one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(count):
            operation()
        best = min(best, (time.process_time() - before) / count)
    return best * 1e6


def measure_operations() -> None:
    """Print the table."""
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(2))
    state, now = runner.state, runner.now()
    page = a_page(100_000)
    sample = load_of(1)
    rows = [
        ("decide (next_actions)", cpu_us(lambda: next_actions(state, now), 2_000)),
        ("scan a page of 100 KB", cpu_us(lambda: read_sample(page, "node_"), 500)),
        ("take a sample and decide", cpu_us(lambda: (runner.take_sample(sample), runner.decide()), 1_000)),
        ("build a record", cpu_us(lambda: build_write(runner), 1_000)),
        ("fenced commit, a VM of 250", _commit_us()),
        *billing_rows(cpu_us),
    ]
    print("operation                     CPU us   ratio")
    for name, cost in rows:
        print(f"{name:<28} {cost:7.1f} {cost / rows[0][1]:7.2f}")
    print()


def _commit_us() -> float:
    clock = FakeClock()
    runners = [a_runner(clock, a_virtual_machine(name=f"db-{index}")) for index in range(250)]
    writes = [build_write(runner) for runner in runners]
    with tempfile.TemporaryDirectory(prefix="vmscaler-bench-") as directory:
        redis = start_embedded(Path(directory))
        try:
            states = RedisState(RedisConnection(redis.url), RedisKeys("bench"))
            return cpu_us(lambda: states.commit(BUCKET, FencingToken(1), writes), 20) / len(writes)
        finally:
            redis.stop()
