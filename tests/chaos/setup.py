"""Files and processes of a run: one directory, a configuration for each worker's way to Redis, commands."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.adapters.embedded_redis import SOCKET_NAME, find_redis_server, server_command
from app.cli.demo_setup import clean_environment
from app.ports.processes import ProcessSpec
from tests.chaos.options import Options

NODES = 4
CPU_PER_VM = 1.6
"""Capacity of the nodes for each VM, so that some permits are not granted in full."""
MEMORY_PER_VM_MIB = 5_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything of a run is."""

    directory: Path
    options: Options
    control_port: int

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def redis_socket(self) -> Path:
        return self.directory / "redis" / SOCKET_NAME

    @property
    def fleet_journal(self) -> Path:
        return self.directory / "fleet.jsonl"

    @property
    def scheduler_journal(self) -> Path:
        return self.directory / "scheduler.jsonl"

    @property
    def stats_journal(self) -> Path:
        return self.directory / "stats.jsonl"

    @property
    def stats_secret(self) -> Path:
        return self.directory / "stats.secret"

    @property
    def harness_journal(self) -> Path:
        return self.directory / "harness.jsonl"

    @property
    def config(self) -> Path:
        """Of those whose way to Redis is never cut: beat, scheduler, commands."""
        return self.directory / "config.json"

    def environment(self, config: Path) -> dict[str, str]:
        """Of one process."""
        more = {"CONFIG_PATH": str(config), "PYTHONUNBUFFERED": "1"}
        return clean_environment(os.environ) | more


def prepare(place: Place, proxy_ports: Mapping[str, int]) -> None:
    """Write the files.

    Args:
        proxy_ports: by worker, where its Redis seems to be.
    """
    for name in ("logs", "redis", "run"):
        (place.directory / name).mkdir(mode=0o700, exist_ok=True)
    place.stats_secret.write_text(secrets.token_urlsafe(32))
    place.stats_secret.chmod(0o600)
    place.config.write_text(json.dumps(document(place, f"unix://{place.redis_socket}"), indent=1))
    for worker, port in proxy_ports.items():
        config = document(place, f"redis://127.0.0.1:{port}/0")
        worker_config(place, worker).write_text(json.dumps(config, indent=1))


def worker_config(place: Place, worker: str) -> Path:
    return place.directory / f"config-{worker}.json"


def document(place: Place, redis_url: str) -> dict[str, object]:
    """The configuration of one process."""
    options = place.options
    per_node = -(-options.vms // NODES)
    node = {
        "cpu": int(per_node * CPU_PER_VM) + 4,
        "memory": f"{per_node * MEMORY_PER_VM_MIB + 8192}Mi",
    }
    return {
        "ownership": {
            "buckets": options.buckets,
            "leaseDurationSeconds": options.lease_s,
            "renewEverySeconds": options.lease_s / 6,
            "giveUpAfterSeconds": options.lease_s * 2 / 3,
        },
        "scaling": {"applyTimeoutSeconds": 10.0, "requestTimeoutSeconds": 3.0},
        "metrics": {"secondsBetweenRequests": options.period_s, "requestTimeoutSeconds": 2.0},
        "redis": {"url": redis_url},
        "platform": {"kind": "sim", "url": f"http://127.0.0.1:{place.control_port}"},
        "nodeScheduler": {
            "port": 0,
            "nodes": [{"name": f"sim-node-{number}", **node} for number in range(1, NODES + 1)],
        },
        "web": {"port": 0},
        "stats": {
            "enabled": True,
            "secretFile": str(place.stats_secret),
            "journal": str(place.stats_journal),
        },
    }


def redis_spec(place: Place) -> ProcessSpec:
    command = server_command(find_redis_server(), place.redis_socket.parent)
    return _spec(place, "redis", (*command, "--logfile", ""), place.config)


def fleet_spec(place: Place) -> ProcessSpec:
    options = place.options
    argv = (
        *_vmscaler("sim", "--vms", str(options.vms), "--nodes", str(NODES), "--seed", str(options.seed)),
        *("--control", f"127.0.0.1:{place.control_port}", "--journal", str(place.fleet_journal)),
        *("--refuse-rate", "0.01", "--partial-rate", "0"),
    )
    return _spec(place, "sim", argv, place.config)


def scheduler_spec(place: Place) -> ProcessSpec:
    argv = _vmscaler("scheduler", "--journal", str(place.scheduler_journal))
    return _spec(place, "scheduler", argv, place.config)


def beat_spec(place: Place) -> ProcessSpec:
    return _spec(place, "beat", _celery("beat", "-l", "info"), place.config)


def worker_spec(place: Place, worker: str) -> ProcessSpec:
    argv = _celery("worker", "-P", "gevent", "-n", f"{worker}@%h", "-l", "info")
    return _spec(place, worker, argv, worker_config(place, worker))


def _spec(place: Place, name: str, argv: tuple[str, ...], config: Path) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        argv=argv,
        environment=place.environment(config),
        directory=place.directory / "run",
        log=place.logs / f"{name}.log",
    )


def _vmscaler(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "app.main", *arguments)


def _celery(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "workers", *arguments)
