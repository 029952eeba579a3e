"""This machine as an observed VM beside the simulated ones: its size is real and is never changed."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from app.core.resources import Resources, resources
from app.fleet.state_file import size_facts
from app.guest.procfs import read_memory
from app.simulation.fleet_plan import GIB

NAMESPACE = "host"


@dataclass(frozen=True, slots=True)
class HostVm:
    """Facts of this machine.

    Attributes:
        size: CPUs and memory that it has, in whole slots.
        metrics: host and port of its metrics page.
    """

    name: str
    size: Resources
    slot_bytes: int
    metrics: tuple[str, int]

    @property
    def key(self) -> str:
        """`host/<hostname>`."""
        return f"{NAMESPACE}/{self.name}"

    def facts(self) -> dict[str, object]:
        """As the control interface shows it; the bounds let its desired size be seen."""
        return {
            "namespace": NAMESPACE,
            "name": self.name,
            "uid": f"host-{self.name}",
            "node": self.name,
            "min": size_facts(resources(min(250, self.size.cpu), 1)),
            "max": size_facts(self.size),
            "use": size_facts(self.size),
            "observed": size_facts(self.size),
            "slot_bytes": self.slot_bytes,
            "mode": "observe",
            "monitor": "none",
            "metrics": {"host": self.metrics[0], "port": self.metrics[1]},
            "monitor_address": None,
            "profile": "real",
        }


def this_machine(metrics: tuple[str, int]) -> HostVm:
    """This machine, read from /proc.

    Raises:
        OSError: /proc can't be read.
        ValueError: it is not Linux' one.
    """
    total = read_memory()["MemTotal"]
    slot_bytes = GIB if total >= 4 * GIB else GIB // 4
    size = resources(1000 * (os.cpu_count() or 1), max(1, total // slot_bytes))
    name = socket.gethostname().split(".")[0] or "localhost"
    return HostVm(name, size, slot_bytes, metrics)
