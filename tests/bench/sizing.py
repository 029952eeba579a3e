"""What a VM costs a worker and Redis: fleets of several sizes under one worker, compared.

`python -m tests.bench.sizing --vms 100 300 600`; CPU by the kernel's accounting, memory as Redis tells it.
The figures of docs/sizing.md come from here.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import redis

from app.adapters.embedded_redis import EmbeddedRedis
from app.bootstrap.stores import Stores
from tests.bench.fleet import FleetPlan, counters_of, cpu_s, rss_mib, running_fleet

WARM_UP_S = 40.0


@dataclass(frozen=True)
class Cost:
    """One fleet, measured.

    Attributes:
        worker_s, redis_s: CPU seconds.
        worker_mib, redis_mib: memory of the worker's process; what Redis' data takes.
        commands: that Redis carried out, and bytes that went to it and back.
        record, entry: bytes in Redis of a VM's record, and of an entry of its audit trail.
    """

    vms: int
    seconds: float
    polls: int
    scalings: int
    worker_s: float
    redis_s: float
    worker_mib: float
    redis_mib: float
    commands: int
    traffic: int
    record: float
    entry: float


def measure(plan: FleetPlan) -> Cost:
    """Run one fleet."""
    with running_fleet(plan) as fleet:
        return _measured(plan, fleet.children["worker1"].pid, fleet.redis, Stores(fleet.settings))


def _measured(plan: FleetPlan, worker: int, server: EmbeddedRedis, stores: Stores) -> Cost:
    client: Any = redis.Redis(unix_socket_path=str(server.socket_path))
    pids = {"worker": worker, "redis": server.process.pid}
    time.sleep(WARM_UP_S)
    polls, scalings = counters_of(stores)
    spent, told, begun = cpu_s(pids), client.info(), time.monotonic()
    time.sleep(plan.seconds)
    later_polls, later_scalings = counters_of(stores)
    later, later_told = cpu_s(pids), client.info()
    seconds = time.monotonic() - begun
    traffic = [
        sum(each[f"total_net_{way}_bytes"] for way in ("input", "output")) for each in (told, later_told)
    ]
    states = [client.memory_usage(key, samples=0) for key in client.keys("*:state")]
    streams = [(client.memory_usage(key, samples=0), client.xlen(key)) for key in client.keys("*:events:*")]
    return Cost(
        vms=plan.vms,
        seconds=seconds,
        polls=later_polls - polls,
        scalings=later_scalings - scalings,
        worker_s=later["worker"] - spent["worker"],
        redis_s=later["redis"] - spent["redis"],
        worker_mib=rss_mib(worker),
        redis_mib=later_told["used_memory_dataset"] / 2**20,
        commands=later_told["total_commands_processed"] - told["total_commands_processed"],
        traffic=traffic[1] - traffic[0],
        record=sum(states) / plan.vms,
        entry=sum(size for size, _ in streams) / max(sum(length for _, length in streams), 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sizing")
    parser.add_argument("--vms", type=int, nargs="+", default=[100, 300, 600])
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--mix", default="")
    options = parser.parse_args()
    costs = [measure(FleetPlan(vms, 1, options.period, options.seconds, options.mix)) for vms in options.vms]
    print(
        "  VMs  polls/s  resizes/s   worker  ms/poll    MiB    Redis  ms/poll  MiB data  cmds/poll  KiB/poll"
    )
    for cost in costs:
        rate, polls = cost.polls / cost.seconds, max(cost.polls, 1)
        worker_ms, redis_ms = cost.worker_s / polls * 1000, cost.redis_s / polls * 1000
        print(
            f"{cost.vms:5}  {rate:7.1f}  {cost.scalings / cost.seconds:9.2f}  "
            f"{cost.worker_s / cost.seconds:6.1%}  {worker_ms:7.2f}  {cost.worker_mib:5.0f}  "
            f"{cost.redis_s / cost.seconds:6.1%}  {redis_ms:7.3f}  {cost.redis_mib:8.2f}  "
            f"{cost.commands / polls:9.1f}  {cost.traffic / polls / 1024:8.2f}"
        )
    print(f"a record {costs[-1].record:.0f} bytes, an audit entry {costs[-1].entry:.0f} bytes")
    first, last = costs[0], costs[-1]
    if last.vms > first.vms:
        more = last.vms - first.vms
        print(f"each VM more: worker {(last.worker_mib - first.worker_mib) * 1024 / more:.0f} KiB")


if __name__ == "__main__":
    main()
