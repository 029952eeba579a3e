"""The platform `qemu`, and this host as a node of the built-in scheduler."""

from __future__ import annotations

import socket
from pathlib import Path

from app.adapters.host_capacity import host_capacity
from app.adapters.qemu_inventory import QemuInventory
from app.adapters.qemu_platform import QemuPlatform
from app.adapters.xdg import state_directory
from app.config import Settings
from app.core.permits import Amount
from app.errors import ConfigurationError


def build_qemu(settings: Settings) -> QemuPlatform:
    """The platform; nothing is read or connected yet.

    Raises:
        ConfigurationError: no source of VMs is named.
    """
    own = settings.qemu
    if own.inventory is None and not own.has_local_vms:
        raise ConfigurationError(
            [".qemu.inventory: is missing, and .qemu.localVms is false: no VMs to scale"]
        )
    state = Path(own.state_directory) if own.state_directory is not None else state_directory()
    inventory = None if own.inventory is None else Path(own.inventory).absolute()
    return QemuPlatform(
        QemuInventory(inventory, state.absolute() if own.has_local_vms else None),
        observe_label=settings.platform.observe_label,
        namespace=settings.platform.namespace,
        look_every_s=own.look_every_seconds,
        look_limit_s=own.look_timeout_seconds,
        oom_hold_s=own.oom_hold_seconds,
    )


def host_node(settings: Settings) -> tuple[str, Amount]:
    """This host's name as a node, and what VMs may have of it.

    Raises:
        ConfigurationError: the reserve leaves nothing.
    """
    total = host_capacity()
    reserved = Amount(settings.qemu.reserved_milli_cpu, settings.qemu.reserved_bytes)
    if reserved.cpu >= total.cpu:
        raise ConfigurationError([".qemu.reservedCpu: leaves no CPU of this host to VMs"])
    if reserved.mem >= total.mem:
        raise ConfigurationError([".qemu.reservedMemory: leaves no memory of this host to VMs"])
    return socket.gethostname(), total.minus(reserved)
