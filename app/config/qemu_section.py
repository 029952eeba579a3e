"""The section of the platform `qemu`: where VMs are told of, and what this host keeps for itself."""

from __future__ import annotations

from app.config.fields import LimitSeconds, Seconds, Section, Text, setting
from app.config.quantities import ReservedCpu, ReservedSize


class QemuSettings(Section):
    """VMs behind QEMU's control sockets."""

    inventory: Text | None = setting(None, "YAML file of VMs; read again when it changes")
    has_local_vms: bool = setting(
        True, "VMs that `vmscaler vm start` runs here are scaled too", alias="localVms"
    )
    state_directory: Text | None = setting(
        None, "where the VMs of this machine are; none: `$XDG_STATE_HOME/vmscaler` of the user"
    )
    look_every_seconds: Seconds = setting(2.0, "how often each VM's size is looked at", "s")
    look_timeout_seconds: Seconds = setting(
        6.0, "limit of such a look; QEMU and the guest have a half each", "s"
    )
    oom_hold_seconds: LimitSeconds = setting(
        300.0, "how long a VM keeps its maximum of memory after its guest ran out of it; 0: not at all", "s"
    )
    reserved_milli_cpu: ReservedCpu = setting(
        0, "CPUs of this host that the built-in scheduler gives to no VM, a quantity", alias="reservedCpu"
    )
    reserved_bytes: ReservedSize = setting(
        512 * 1024 * 1024,
        "memory of this host that the built-in scheduler gives to no VM, a quantity of bytes",
        alias="reservedMemory",
    )
