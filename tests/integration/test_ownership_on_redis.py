"""Workers' ownership on one real Redis, in greenlets and in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.adapters.clock import SystemClock
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.ring import bucket_names
from app.ports.store import LeaseView

TOTAL = 16
DURATION_S = 2.0
PATIENCE_S = 60.0

# One worker: prints a line when it holds something new, leaves cleanly when its stdin ends.
WORKER = """
from gevent import monkey
monkey.patch_all()
import select, sys
from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_leases import RedisLeases
from app.cluster.lease import LeaseTimes
from tests.fakes.owners import Owner
from app.cluster.ring import bucket_names

name, url, prefix, total, duration = sys.argv[1:]
total, duration = int(total), float(duration)
leases = RedisLeases(RedisConnection(url), RedisKeys(prefix), bucket_names(total), duration_s=duration)
times = LeaseTimes(duration_s=duration, renew_every_s=duration / 8, give_up_after_s=duration * 2 / 3)
owner = Owner(name, leases, SystemClock(), total, times)
concurrency = GreenConcurrency()
stop = concurrency.signal()
job = concurrency.spawn("leases", lambda: owner.ownership.run(stop, concurrency))
print("started", flush=True)
select.select([sys.stdin], [], [])
stop.set()
owner.ownership.release_all()
print("ended" if job.join(30) else "hangs", flush=True)
"""


class Worker:
    def __init__(self, name: str, url: str, prefix: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, name, url, prefix, str(TOTAL), str(DURATION_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.line() == "started"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.line()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Fleet:
    def __init__(self, url: str, prefix: str) -> None:
        self.url, self.prefix = url, prefix
        self.workers: list[Worker] = []
        self.connection = RedisConnection(url)
        self.leases = RedisLeases(
            self.connection, RedisKeys(prefix), bucket_names(TOTAL), duration_s=DURATION_S
        )

    def start(self, name: str) -> Worker:
        self.workers.append(Worker(name, self.url, self.prefix))
        return self.workers[-1]

    def wait_for(self, condition: Callable[[LeaseView], bool]) -> LeaseView:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(view := self.leases.view()):
            assert time.monotonic() < deadline, f"never came: {view}"
            time.sleep(0.05)
        return view

    def wait_for_shares(self, shares: dict[str, int]) -> LeaseView:
        return self.wait_for(lambda view: count(view) == shares)


def count(view: LeaseView) -> dict[str, int]:
    holders = [row.holder.agent_id for row in view.leases.values() if row.holder is not None]
    return {holder: holders.count(holder) for holder in sorted(set(holders))}


@pytest.fixture
def fleet(redis_url: str, redis_prefix: str) -> Iterator[Fleet]:
    fleet = Fleet(redis_url, redis_prefix)
    yield fleet
    for worker in fleet.workers:
        worker.end()
    fleet.connection.close()


def test_two_workers_share_and_the_buckets_of_a_killed_one_move(fleet: Fleet) -> None:
    ann = fleet.start("ann")
    fleet.wait_for_shares({"ann": 16})
    fleet.start("bob")
    shared = fleet.wait_for_shares({"ann": 8, "bob": 8})
    ann.end()
    taken_over = fleet.wait_for_shares({"bob": 16})
    for bucket, row in taken_over.leases.items():
        was_anns = shared.leases[bucket].holder != row.holder
        assert (row.token > shared.leases[bucket].token) is was_anns


def test_a_worker_that_leaves_gives_everything_back_and_ends(fleet: Fleet) -> None:
    ann = fleet.start("ann")
    fleet.wait_for_shares({"ann": 16})
    assert ann.leave() == "ended"
    view = fleet.leases.view()
    assert count(view) == {}
    assert view.live_agents == ()


def test_the_clock_counts_on_and_is_in_milliseconds() -> None:
    clock = SystemClock()
    before, before_ms = clock.monotonic(), clock.wall_ms()
    time.sleep(0.01)
    assert clock.monotonic() - before >= 0.009
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000
    assert clock.wall_ms() >= before_ms
