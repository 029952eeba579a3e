"""A whole fleet on this machine: CPU of every process, by VM and poll.

The processes are those of the Procfile, with the simulated fleet at the other end of real sockets.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.adapters.embedded_redis import EmbeddedRedis, start_embedded
from app.adapters.port_reservation import ReservedPort
from app.bootstrap.stores import Stores
from app.config import Settings, load_settings

WARM_UP_S = 25.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class FleetPlan:
    """What is run, and for how long it is measured; `celery` is how Python is told to start its processes."""

    vms: int
    workers: int
    period_s: float
    seconds: float
    mix: str
    celery: tuple[str, ...] = ("-m", "celery")

    @property
    def nodes(self) -> int:
        """Room for each VM at its maximum of 4 CPUs: one that is refused a permit asks again every 2 s."""
        return max(2, math.ceil(self.vms / 100))


@dataclass(frozen=True)
class RunningFleet:
    """Processes by name, Redis, and the configuration that they all have."""

    config: Path
    redis: EmbeddedRedis
    children: dict[str, subprocess.Popen[bytes]]

    @property
    def settings(self) -> Settings:
        return load_settings(str(self.config), {})


@contextmanager
def running_fleet(plan: FleetPlan, **sections: object) -> Iterator[RunningFleet]:
    """Start all processes; end them all behind it.

    Args:
        sections: of the configuration, beside those that every fleet here has.
    """
    with tempfile.TemporaryDirectory(prefix="vmscaler-bench-") as name:
        directory = Path(name)
        redis, port = start_embedded(directory / "redis"), ReservedPort()
        config = write_config(plan, directory, redis.url, port.number, **sections)
        environment = {**os.environ, "CONFIG_PATH": str(config)}
        children: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for child, argv in commands_of(plan, port.number).items():
                children[child] = start_child(child, argv, environment, directory)
            yield RunningFleet(config, redis, children)
        finally:
            for process in children.values():
                process.send_signal(signal.SIGTERM)
            for process in children.values():
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
            redis.stop()
            port.close()


def measure_fleet(plan: FleetPlan) -> None:
    """Start everything, let it settle, measure, print, stop."""
    with running_fleet(plan) as fleet:
        pids = {child: process.pid for child, process in fleet.children.items()}
        pids["redis"] = fleet.redis.process.pid
        _report(plan, pids, Stores(fleet.settings))


def write_config(
    plan: FleetPlan, directory: Path, redis_url: str, control_port: int, **sections: object
) -> Path:
    node = {"cpu": 512, "memory": "4Ti"}
    config = {
        "metrics": {"secondsBetweenRequests": plan.period_s},
        "redis": {"url": redis_url},
        "platform": {"kind": "sim", "url": f"http://127.0.0.1:{control_port}"},
        "nodeScheduler": {
            "port": 0,
            "nodes": [{"name": f"sim-node-{number + 1}", **node} for number in range(plan.nodes)],
        },
        "web": {"port": 0},
        **sections,
    }
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    return path


def commands_of(plan: FleetPlan, control_port: int) -> dict[str, list[str]]:
    celery = [sys.executable, *plan.celery, "-A", "workers"]
    vmscaler = [sys.executable, "-m", "app.main"]
    sim = [*vmscaler, "sim", "--vms", str(plan.vms), "--nodes", str(plan.nodes)]
    sim += ["--control", f"127.0.0.1:{control_port}"]
    if plan.mix:
        sim += ["--profile-mix", plan.mix]
    workers = {
        f"worker{number}": [*celery, "worker", "-P", "gevent", "-n", f"worker{number}@%h", "-l", "warning"]
        for number in range(1, plan.workers + 1)
    }
    return {"sim": sim, "scheduler": [*vmscaler, "scheduler"], **workers, "beat": [*celery, "beat"]}


def start_child(
    name: str, argv: list[str], environment: dict[str, str], directory: Path
) -> subprocess.Popen[bytes]:
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(argv, env=environment, cwd=directory, stdout=log, stderr=log)


def _report(plan: FleetPlan, pids: dict[str, int], stores: Stores) -> None:
    time.sleep(WARM_UP_S)
    polls, scalings, cpu, begun = *counters_of(stores), cpu_s(pids), time.monotonic()
    time.sleep(plan.seconds)
    later_polls, later_scalings = counters_of(stores)
    spent = {name: after - cpu[name] for name, after in cpu_s(pids).items()}
    elapsed = time.monotonic() - begun
    polls, scalings = later_polls - polls, later_scalings - scalings
    due = plan.vms * elapsed / plan.period_s
    of_workers = sum(seconds for name, seconds in spent.items() if name.startswith("worker"))
    print(f"{plan.vms} VMs, {plan.workers} workers, a poll each {plan.period_s:g} s, for {elapsed:.0f} s")
    print(f"  polls {polls} of {due:.0f} due ({polls / due:.1%}), scaling tasks {scalings}")
    print("  process     CPU s   of one core")
    for name, seconds in spent.items():
        print(f"  {name:<10} {seconds:6.2f}   {seconds / elapsed:6.1%}  {rss_mib(pids[name]):5.0f} MiB")
    per_poll = of_workers / polls * 1000 if polls else float("nan")
    share = f"{of_workers / elapsed:.1%} of one core"
    print(f"  workers together: {share}, {per_poll:.2f} ms of CPU per VM and poll")


def counters_of(stores: Stores) -> tuple[int, int]:
    """Polls and scaling tasks of all workers since their start."""
    polls = scalings = 0
    for agent in stores.agents.list():
        facts = json.loads(agent.facts)
        if facts["kind"] == "worker":
            polls += facts["counters"]["polls"]
            scalings += facts["counters"]["scaling_tasks"]
    return polls, scalings


def cpu_s(pids: dict[str, int]) -> dict[str, float]:
    spent = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent[name] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return spent


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
