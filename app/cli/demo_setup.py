"""What a demo consists of: a private directory, a configuration file, and the processes in their order.

Everything is beneath one directory of mode 0700 and on ports that are reserved first, so that two demos on
one machine share nothing. Secrets are in files, never in arguments.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.adapters.embedded_redis import SOCKET_NAME, server_command
from app.adapters.port_reservation import ReservedPort
from app.errors import ConfigurationError
from app.ports.processes import ProcessSpec

MAX_SOCKET_PATH = 99
"""Bytes; the kernel's limit is 107, and Celery's address of it should fit the same line of a log."""

BUCKETS = 16
POLL_S = 2.0
NODES = 2
"""The simulated fleet's nodes, named `sim-node-1` and so on."""

CPU_PER_VM = 1.75
MEMORY_PER_VM = 3.25 * (1 << 30)
"""Capacity of the nodes for each VM: less than all want at once, so that a permit is refused now and then."""

WORKERS = ("worker1", "worker2")
FIRST, MIDDLE, LAST = range(3)
"""Waves of the stop: workers release their buckets while all others still answer; Redis goes last."""

_OWN_VARIABLES = ("CONFIG_PATH", "DEMO_SECONDS", "K8S_", "VMSCALER_", "CELERY_", "FLOWER_", "C_FORCE_ROOT")
"""Beginnings of variables that would reach into the demo's processes from outside."""


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """Reserved for the demo's life; each is a loopback port."""

    flower: ReservedPort
    control: ReservedPort
    metrics: ReservedPort

    @classmethod
    def reserve(cls) -> DemoPorts:
        """Take three free ones."""
        return cls(ReservedPort(), ReservedPort(), ReservedPort())


@dataclass(frozen=True, slots=True)
class DemoSetup:
    """Where everything is, once the files are written.

    Attributes:
        directory: private, removed at the end.
        environment: of every child; also says where the configuration is.
    """

    directory: Path
    ports: DemoPorts
    environment: Mapping[str, str]
    vms: int

    @property
    def logs(self) -> Path:
        """A file for each process."""
        return self.directory / "logs"

    @property
    def redis_socket(self) -> Path:
        """Where the demo's own Redis listens."""
        return self.directory / "redis" / SOCKET_NAME

    @property
    def flower_url(self) -> str:
        """For the operator's browser."""
        return f"http://127.0.0.1:{self.ports.flower.number}"


def prepare(vms: int, environ: Mapping[str, str]) -> DemoSetup:
    """Make the directory, reserve the ports, write the configuration.

    Raises:
        ConfigurationError: no directory can be had.
    """
    directory = make_directory(environ)
    for name in ("logs", "redis", "sim", "run"):
        (directory / name).mkdir(mode=0o700)
    config, token = directory / "config.json", directory / "sim.token"
    environment = clean_environment(environ) | {"CONFIG_PATH": str(config), "PYTHONUNBUFFERED": "1"}
    setup = DemoSetup(directory, DemoPorts.reserve(), environment, vms)
    write_private(token, secrets.token_urlsafe(32))
    write_private(config, json.dumps(demo_document(setup, token), indent=2) + "\n")
    return setup


def make_directory(environ: Mapping[str, str]) -> Path:
    """A new directory of mode 0700, in XDG_RUNTIME_DIR or else /tmp, short enough for sockets in it.

    Raises:
        ConfigurationError: neither can be written to.
    """
    problem = ""
    for parent in (environ.get("XDG_RUNTIME_DIR") or "", "/tmp", tempfile.gettempdir()):  # noqa: S108
        if not parent or not os.path.isabs(parent):
            continue
        try:
            directory = Path(tempfile.mkdtemp(prefix="vmscaler-demo-", dir=parent)).resolve()
        except OSError as err:
            problem = f"{parent}: {err.strerror or err}"
            continue
        if len(os.fsencode(directory / "redis" / SOCKET_NAME)) <= MAX_SOCKET_PATH:
            return directory
        directory.rmdir()
        problem = f"{parent}: too long for a unix socket"
    raise ConfigurationError([f"no directory for sockets and logs; {problem}"], source="demo")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would configure the demo's processes from outside."""
    return {name: value for name, value in environ.items() if not name.startswith(_OWN_VARIABLES)}


def demo_document(setup: DemoSetup, token: Path) -> dict[str, object]:
    """The configuration: short times, so that something happens while one looks on; no secret in it."""
    vms_per_node = max(1, math.ceil(setup.vms / NODES))
    node = {
        "cpu": math.ceil(vms_per_node * CPU_PER_VM) + 4,
        "memory": f"{math.ceil(vms_per_node * MEMORY_PER_VM / (1 << 20)) + 4096}Mi",
    }
    return {
        "ownership": {
            "buckets": BUCKETS,
            "leaseDurationSeconds": 3.0,
            "renewEverySeconds": 0.5,
            "giveUpAfterSeconds": 2.0,
        },
        "scaling": {"applyTimeoutSeconds": 10.0},
        "metrics": {"secondsBetweenRequests": POLL_S, "requestTimeoutSeconds": 1.0},
        "redis": {"url": f"unix://{setup.redis_socket}"},
        "platform": {
            "kind": "sim",
            "url": f"http://127.0.0.1:{setup.ports.control.number}",
            "tokenFile": str(token),
        },
        "nodeScheduler": {
            "port": 0,
            "nodes": [{"name": f"sim-node-{number}", **node} for number in range(1, NODES + 1)],
        },
        "web": {"port": 0},
        "dumpState": {"port": 0},
    }


def redis_spec(setup: DemoSetup, server: Path) -> ProcessSpec:
    """Redis, which the others need first; its log is its output, like everybody's."""
    command = server_command(server, setup.directory / "redis")
    return _spec(setup, "redis", (*command, "--logfile", ""), LAST)


def process_specs(setup: DemoSetup) -> tuple[ProcessSpec, ...]:
    """All processes but Redis, in the order of their start."""
    ports = setup.ports
    metrics = f"127.0.0.1:{ports.metrics.number}"
    sim = (
        *("sim", "--vms", str(setup.vms), "--nodes", str(NODES), "--state", str(setup.directory / "sim")),
        *(
            "--control",
            f"127.0.0.1:{ports.control.number}",
            "--token-file",
            str(setup.directory / "sim.token"),
        ),
        *("--observe-host", "--host-metrics", metrics),
    )
    return (
        _spec(setup, "sim", _vmscaler(*sim), MIDDLE),
        _spec(setup, "metrics", _vmscaler("guest", "metrics", "--listen", metrics), MIDDLE),
        *control_plane_specs(setup),
    )


def control_plane_specs(setup: DemoSetup) -> tuple[ProcessSpec, ...]:
    """What scales, but Redis: scheduler, workers, beat, Flower."""
    flower = ("flower", "--address=127.0.0.1", f"--port={setup.ports.flower.number}")
    return (
        _spec(setup, "scheduler", _vmscaler("scheduler"), MIDDLE),
        *(
            _spec(setup, name, _celery("worker", "-P", "gevent", "-n", f"{name}@%h", "-l", "info"), FIRST)
            for name in WORKERS
        ),
        _spec(setup, "beat", _celery("beat", "-l", "warning"), FIRST),
        _spec(setup, "flower", _celery(*flower), FIRST),
    )


def _spec(setup: DemoSetup, name: str, argv: tuple[str, ...], stop_wave: int) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        argv=argv,
        environment=setup.environment,
        directory=setup.directory / "run",
        log=setup.logs / f"{name}.log",
        stop_wave=stop_wave,
    )


def _vmscaler(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "app.main", *arguments)


def _celery(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "workers", *arguments)


def write_private(path: Path, text: str) -> None:
    """Write a file that is not there yet and that only its user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
