"""What the demo of real VMs consists of: the private directory, two VMs in it, the fleet's configuration."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.adapters.host_capacity import host_capacity
from app.adapters.image_build import Image
from app.adapters.qemu_command import QEMU
from app.adapters.qemu_directory import LocalVm
from app.adapters.qemu_local import LocalVms, new_uid
from app.cli.demo_setup import DemoPorts, DemoSetup, clean_environment, make_directory, write_private
from app.errors import ConfigurationError

VMS = ("vm1", "vm2")
MAX_CPUS = 4
LEAST, MOST, SLOT = "512Mi", "2Gi", "128Mi"
UNIT = {"vCPUs": 1, "mem": 4}
"""One CPU and 512 MiB, the VMs' own shape: one unit is what they start with, four are their maximum."""
APPLY_S = 10.0
"""A shrink is watched for 8 s and then stopped; to wait longer for it only puts off the next one."""
BUCKETS = 4
POLL_S = 2.0
SCHEDULER_CPUS = MAX_CPUS * len(VMS)
"""Of the node: virtual CPUs may be more than the host's."""
RESERVED_BYTES = 1 << 30


def need_qemu() -> None:
    """Check that there is a QEMU. Raises ConfigurationError: one line that says what to install."""
    if shutil.which(QEMU) is None:
        raise ConfigurationError(
            [f"{QEMU} is not installed; as root: apt-get install qemu-system-x86 e2fsprogs"], source="demo-vm"
        )


def prepare_vms(environ: Mapping[str, str]) -> DemoSetup:
    """Make the directory, reserve the ports, write the configuration.

    Raises:
        ConfigurationError: no directory can be had.
    """
    directory = make_directory(environ)
    for name in ("logs", "redis", "run", "vms"):
        (directory / name).mkdir(mode=0o700)
    config = directory / "config.json"
    environment = clean_environment(environ) | {"CONFIG_PATH": str(config), "PYTHONUNBUFFERED": "1"}
    setup = DemoSetup(directory, DemoPorts.reserve(), environment, len(VMS))
    write_private(config, json.dumps(vm_demo_document(setup), indent=2) + "\n")
    return setup


def vm_demo_document(setup: DemoSetup) -> dict[str, object]:
    """The configuration: polled often, with leases that a machine full of busy VMs does not break."""
    memory = max(host_capacity().mem - RESERVED_BYTES, RESERVED_BYTES)
    node = {"name": socket.gethostname(), "cpu": SCHEDULER_CPUS, "memory": f"{memory >> 20}Mi"}
    return {
        "ownership": {
            "buckets": BUCKETS,
            "leaseDurationSeconds": 8.0,
            "renewEverySeconds": 1.5,
            "giveUpAfterSeconds": 5.0,
        },
        "scaling": {"computeUnit": UNIT, "applyTimeoutSeconds": APPLY_S},
        "metrics": {"secondsBetweenRequests": POLL_S, "requestTimeoutSeconds": POLL_S},
        "redis": {"url": f"unix://{setup.redis_socket}"},
        "platform": {"kind": "qemu"},
        "qemu": {"stateDirectory": str(setup.directory)},
        "nodeScheduler": {"port": 0, "computeUnit": UNIT, "nodes": [node]},
        "web": {"port": 0},
    }


def vms_of(setup: DemoSetup, image: Image) -> LocalVms:
    """The demo's VMs, none of which is there yet."""
    return LocalVms(setup.directory, lambda _: (image.kernel, image.initramfs, image.root))


def describe_vms(image: Image, names: Sequence[str] = VMS) -> list[LocalVm]:
    """VMs as `vm create` would describe them."""
    fields = {
        "node": socket.gethostname(),
        "min": {"cpu": 1, "memory": LEAST},
        "max": {"cpu": MAX_CPUS, "memory": MOST},
        "slot": SLOT,
        "image": str(image.directory),
    }
    return [LocalVm.model_validate({**fields, "name": name, "uid": new_uid()}) for name in names]


def example_commands(setup: DemoSetup, vmscaler: Path) -> tuple[str, ...]:
    """What an operator can type in another terminal."""
    state = f"--state {setup.directory}"
    return (
        f"{vmscaler} vm load {VMS[0]} --cpu 3 --memory 600M --for 60s {state}",
        f"{vmscaler} vm console {VMS[0]} {state}",
        f"CONFIG_PATH={setup.directory}/config.json {vmscaler} explain {VMS[0]}",
    )
