"""The series of each VM, kept ready as bytes and made anew where something has changed.

A fleet's sizes change far less often than its page is asked for: making the lines of a VM costs some 15 µs,
to see that they are still right a tenth of that. They go with their runner: with its VM, or with its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from app.core.resources import Resources
from app.ports.vm import VirtualMachine
from app.protocols.exposition import head_text, labels_text
from app.protocols.metric_families import Family
from app.services.runner import Runner

VM_RESOURCES = Family(
    "autoscaling_vm_resources",
    "gauge",
    "size of a VM, CPUs and bytes: its bounds, what was asked of the platform, and what it really has",
    {
        "vm_namespace": (),
        "vm_name": (),
        "endpoint_id": (),
        "resource": ("cpu", "mem"),
        "value": ("min", "max", "spec_use", "status_use"),
    },
)
VM_SIZES = Family(
    "vmscaler_vm_size",
    "gauge",
    "size of a VM, CPUs and bytes: desired by the core, approved by scheduler and monitor, observed",
    {
        "vm_namespace": (),
        "vm_name": (),
        "resource": ("cpu", "mem"),
        "value": ("desired", "permitted", "approved", "observed"),
    },
)
VM_FAMILIES: tuple[Family, ...] = (VM_RESOURCES, VM_SIZES)

_HEADS = tuple(head_text(each.name, each.kind, each.text).encode() for each in VM_FAMILIES)

_Sizes = tuple[VirtualMachine, Resources | None, Resources | None, Resources | None]


class _Lines:
    """One VM's lines for each family, and what they were made from."""

    __slots__ = ("made_from", "texts")

    def __init__(self) -> None:
        self.made_from: _Sizes | None = None
        self.texts: tuple[bytes, bytes] = (b"", b"")


class VmSeries:
    """Lines of the runners that were asked for last."""

    def __init__(self) -> None:
        self._lines: WeakKeyDictionary[Runner, _Lines] = WeakKeyDictionary()
        self.made = 0

    def lines_of(self, runner: Runner) -> tuple[bytes, bytes]:
        """The runner's lines in each of `VM_FAMILIES`."""
        lines = self._lines.get(runner)
        if lines is None:
            lines = self._lines[runner] = _Lines()
        state, before = runner.state, lines.made_from
        vm, desired = runner.vm, runner.decided.desired
        permit, approved = state.plugin.permit, state.monitor.approved
        if before is None or not (
            before[0] is vm and before[1] == desired and before[2] == permit and before[3] == approved
        ):
            lines.made_from = vm, desired, permit, approved
            lines.texts = _resources_text(vm), _sizes_text(vm, desired, permit, approved)
            self.made += 1
        return lines.texts

    @staticmethod
    def whole(parts: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        """These VMs' lines, family by family, each behind its head."""
        listed = list(parts)
        if not listed:
            return []
        first, second = zip(*listed, strict=True)
        return [_HEADS[0], *first, _HEADS[1], *second]


def _resources_text(vm: VirtualMachine) -> bytes:
    known = labels_text(
        [("vm_namespace", vm.namespace), ("vm_name", vm.name), ("endpoint_id", vm.endpoint_id or "")]
    )
    sizes = (("min", vm.min), ("max", vm.max), ("spec_use", vm.use), ("status_use", vm.observed))
    return _lines_text(VM_RESOURCES.name, known, sizes, vm.slot_bytes)


def _sizes_text(
    vm: VirtualMachine, desired: Resources | None, permit: Resources | None, approved: Resources | None
) -> bytes:
    known = labels_text([("vm_namespace", vm.namespace), ("vm_name", vm.name)])
    sizes = (
        ("desired", desired or vm.real_size),
        ("permitted", permit),
        ("approved", approved),
        ("observed", vm.observed),
    )
    return _lines_text(VM_SIZES.name, known, sizes, vm.slot_bytes)


def _lines_text(
    name: str, known: str, sizes: Iterable[tuple[str, Resources | None]], slot_bytes: int
) -> bytes:
    """Two lines for each size that is known, its CPUs and its bytes."""
    head = f"{name}{known[:-1]}"
    return "".join(
        f'{head},resource="cpu",value="{value}"}} {size.cpu / 1000:.12g}\n'
        f'{head},resource="mem",value="{value}"}} {size.mem * slot_bytes}\n'
        for value, size in sizes
        if size is not None
    ).encode()
