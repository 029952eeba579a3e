"""A virtual machine as its platform describes it; what inventory, runner and platform exchange."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

from app.core.model import CoreVm, Mode, ScalingConfig
from app.core.resources import Resources

VmKey = NewType("VmKey", str)
"""`namespace/name`: what buckets, records and commands name a VM by."""


class Address(NamedTuple):
    """Where a server of the VM is reached."""

    host: str
    port: int


class MonitorPolicy(StrEnum):
    """Whether a VM may be scaled without a live monitor (`spec/monitor-protocol.md`)."""

    REQUIRED = "required"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """A VM as its platform describes it now.

    Attributes:
        uid: differs between two VMs that had the same name one after the other.
        node: where it runs; the built-in scheduler counts capacity by node.
        use: the size last asked for at the platform; the basis of the next patch.
        observed: the size that it really has; None while the platform can't tell.
        mode: scale or observe, as the platform says; an operator may override it.
        metrics: where its metrics page is; None: it has none, nothing is polled.
        monitor_address: where its vm-monitor listens; None with `MonitorPolicy.NONE`.
        informant: where its informant listens; None where it has none, or the platform can't tell.
        migrating: nothing may be asked of anyone until it runs again.
        endpoint_id: billing identity, None where there is none.
        pod_name: of the pod that it runs in, by which a cluster's scheduler knows it; None: the VM's name.
        use_writer: who set `use` last, where the platform tells; two that scale one VM are found by it.
        overwrites: how often another than us was seen to change `use`; one that sets our size back at once
            leaves no other trace.
    """

    namespace: str
    name: str
    uid: str
    node: str
    min: Resources
    max: Resources
    use: Resources
    observed: Resources | None
    slot_bytes: int
    scaling_config: ScalingConfig | None = None
    mode: Mode = Mode.SCALE
    monitor: MonitorPolicy = MonitorPolicy.REQUIRED
    metrics: Address | None = None
    monitor_address: Address | None = None
    migrating: bool = False
    endpoint_id: str | None = None
    informant: Address | None = None
    use_writer: str | None = None
    overwrites: int = 0
    pod_name: str | None = None

    @property
    def key(self) -> VmKey:
        """`namespace/name`."""
        return VmKey(f"{self.namespace}/{self.name}")

    @property
    def real_size(self) -> Resources:
        """The observed size, or the one asked for while nothing was observed."""
        return self.observed if self.observed is not None else self.use

    def for_core(self) -> CoreVm:
        """The part that the decision core knows, using its real size."""
        return CoreVm(
            name=self.name,
            namespace=self.namespace,
            min=self.min,
            max=self.max,
            use=self.real_size,
            slot_bytes=self.slot_bytes,
            scaling_config=self.scaling_config,
        )
