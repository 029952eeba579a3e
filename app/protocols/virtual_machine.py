"""NeonVM `VirtualMachine` objects: which are ours, what they say, and the JSON Patch that resizes one.

Source of the rules: `spec/neonvm.md`. Objects come from an API server that anyone with rights in a namespace
writes to: every field is checked, and what is wrong is named by its path.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass

from app.core.model import Mode, ScalingConfig
from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.protocols.managed_fields import NOBODY, UseWriters, use_writers
from app.protocols.object_fields import MAX_TEXT, Object, inner, optional_text, required, required_text
from app.protocols.quantity import format_milli_cpu, parse_bytes, parse_milli_cpu
from app.protocols.vm_annotations import (
    BOUNDS_ANNOTATION,
    CONFIG_ANNOTATION,
    MAX_SLOTS,
    check_cpu_bound,
    read_bounds,
    read_targets,
)

GROUP, VERSION, PLURAL = "vm.neon.tech", "v1", "virtualmachines"

BILLING_ANNOTATION = "autoscaling.neon.tech/billing-endpoint-id"
ENDPOINT_LABEL = "neon/endpoint-id"

MIGRATING_PHASES = frozenset({"PreMigrating", "Migrating"})
ALIVE_PHASES = frozenset({"Running", "Scaling"}) | MIGRATING_PHASES

MAX_USE_MILLI_CPU = 1_000_000_000
"""What a `use` may be: outside of its bounds it is odd, not wrong."""

MAX_SLOT_BYTES = 2**50

CPUS_PATH, SLOTS_PATH = "/spec/guest/cpus/use", "/spec/guest/memorySlots/use"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are ours.

    Attributes:
        scheduler_name: what `.spec.schedulerName` must be.
        enabled_label: `"true"` on it: the VM is scaled.
        observe_label: `"true"` on it: the VM is observed, unless it is enabled too; None: no such label.
        node: the only node whose VMs are ours; None: those of every node.
    """

    scheduler_name: str
    enabled_label: str
    observe_label: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class UseBasis:
    """The values of `use` as their JSON spells them, which is what a patch's `test` compares."""

    cpu: object
    slots: object


@dataclass(frozen=True, slots=True)
class VmObject:
    """One of our VMs, read from its object.

    Attributes:
        observed: `.status.cpus` and `.status.memorySize`; None while either is missing.
        pod_ip: None only while it migrates.
        basis: what `use` was, for `resize_patch`.
        use_writers: who set `use` last, as far as the object tells.
        warnings: what is odd without being wrong.
    """

    namespace: str
    name: str
    uid: str
    min: Resources
    max: Resources
    use: Resources
    observed: Resources | None
    slot_bytes: int
    scaling_config: ScalingConfig | None
    mode: Mode
    migrating: bool
    pod_name: str | None
    pod_ip: str | None
    node: str
    endpoint_id: str | None
    basis: UseBasis
    use_writers: UseWriters = NOBODY
    warnings: tuple[str, ...] = ()


def is_ours(vm: Object, selection: Selection) -> bool:
    """Whether the object is a VM that we scale or observe now; never fails, whatever the object holds."""
    if _mode(vm, selection) is None:
        return False
    if inner(vm, "spec").get("schedulerName") != selection.scheduler_name:
        return False
    status = inner(vm, "status")
    phase = _phase(status)
    if phase not in ALIVE_PHASES:
        return False
    if phase in MIGRATING_PHASES:
        # Its node changes meanwhile: it stays with the one that it is leaving.
        return selection.node is None or status.get("node") == selection.node
    return bool(status.get("podIP")) and (selection.node is None or status.get("node") == selection.node)


def read_virtual_machine(vm: Object, selection: Selection, defaults: ScalingConfig) -> VmObject:
    """What the object of a VM that is ours says.

    Args:
        defaults: targets that the `config` annotation leaves out.

    Raises:
        InvalidInput: a field that is missing or wrong; `where` is its path.
    """
    metadata, spec, status = inner(vm, "metadata"), inner(vm, "spec"), inner(vm, "status")
    guest = inner(spec, "guest")
    cpus, slots = inner(guest, "cpus"), inner(guest, "memorySlots")
    slot_bytes = _slot_size(guest.get("memorySlotSize"))
    low = resources(_cpu_bound(cpus, "min"), _slots(slots, "min"))
    high = resources(_cpu_bound(cpus, "max"), _slots(slots, "max"))
    use = resources(
        _cpu(required(cpus, "use", ".spec.guest.cpus.use"), ".spec.guest.cpus.use"), _slots(slots, "use")
    )
    annotations = inner(metadata, "annotations")
    where = ".spec.guest"
    if (text := annotations.get(BOUNDS_ANNOTATION)) is not None:
        where = f".metadata.annotations[{BOUNDS_ANNOTATION}]"
        low, high = read_bounds(text, where, slot_bytes)
    if low.has_field_above(high):
        raise InvalidInput(where, f"min ({_say(low)}) must not exceed max ({_say(high)})")
    return VmObject(
        namespace=required_text(metadata, "namespace", ".metadata.namespace"),
        name=required_text(metadata, "name", ".metadata.name"),
        uid=required_text(metadata, "uid", ".metadata.uid"),
        min=low,
        max=high,
        use=use,
        observed=_observed(status, slot_bytes),
        slot_bytes=slot_bytes,
        scaling_config=read_targets(annotations.get(CONFIG_ANNOTATION), defaults),
        mode=_mode(vm, selection) or Mode.OBSERVE,
        migrating=_phase(status) in MIGRATING_PHASES,
        pod_name=optional_text(status, "podName", ".status.podName"),
        pod_ip=_pod_ip(status),
        node=optional_text(status, "node", ".status.node") or "",
        endpoint_id=_endpoint(annotations, inner(metadata, "labels")),
        basis=UseBasis(cpus.get("use"), slots.get("use")),
        use_writers=use_writers(vm),
        warnings=_warnings(use, low, high),
    )


def resize_patch(uid: str, basis: UseBasis, target: Resources) -> list[dict[str, object]]:
    """The JSON Patch that asks for `target`, refused if another writer has changed `use` or made the VM anew.

    Both fields are in it even if one does not change: what another writer must leave alone is the pair.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": CPUS_PATH, "value": basis.cpu},
        {"op": "test", "path": SLOTS_PATH, "value": basis.slots},
        {"op": "replace", "path": CPUS_PATH, "value": format_milli_cpu(target.cpu)},
        {"op": "replace", "path": SLOTS_PATH, "value": int(target.mem)},
    ]


def key_of(vm: Object) -> tuple[str, str]:
    """(namespace, name), as far as they can be read; `?` where not."""
    metadata = inner(vm, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (
        namespace[:MAX_TEXT] if isinstance(namespace, str) and namespace else "?",
        name[:MAX_TEXT] if isinstance(name, str) and name else "?",
    )


def _mode(vm: Object, selection: Selection) -> Mode | None:
    labels = inner(inner(vm, "metadata"), "labels")
    if labels.get(selection.enabled_label) == "true":
        return Mode.SCALE
    if selection.observe_label is not None and labels.get(selection.observe_label) == "true":
        return Mode.OBSERVE
    return None


def _phase(status: Object) -> str:
    phase = status.get("phase")
    return phase if isinstance(phase, str) else ""


def _pod_ip(status: Object) -> str | None:
    """Where its servers are reached: an IP address and nothing else, so that no name can lead elsewhere."""
    text = optional_text(status, "podIP", ".status.podIP")
    if text is None:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise InvalidInput(".status.podIP", "is no IP address") from None


def _cpu(value: object, where: str) -> int:
    milli = parse_milli_cpu(value, where=where)
    if not 0 < milli <= MAX_USE_MILLI_CPU:
        raise InvalidInput(where, f"must be above 0 and at most {MAX_USE_MILLI_CPU // 1000} CPUs")
    return milli


def _cpu_bound(cpus: Object, name: str) -> int:
    where = f".spec.guest.cpus.{name}"
    return check_cpu_bound(parse_milli_cpu(required(cpus, name, where), where=where), where)


def _slots(slots: Object, name: str) -> int:
    where = f".spec.guest.memorySlots.{name}"
    value = required(slots, name, where)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(where, "must be a whole number of slots")
    if not 0 < value <= MAX_SLOTS:
        raise InvalidInput(where, f"must be 1 to {MAX_SLOTS} slots")
    return value


def _slot_size(value: object) -> int:
    where = ".spec.guest.memorySlotSize"
    if value is None:
        raise InvalidInput(where, "is missing")
    size = parse_bytes(value, where=where)
    if not 0 < size <= MAX_SLOT_BYTES:
        raise InvalidInput(where, "must be above 0 and at most 1Pi")
    return size


def _observed(status: Object, slot_bytes: int) -> Resources | None:
    cpu, size = status.get("cpus"), status.get("memorySize")
    if cpu is None or size is None:
        return None
    milli = parse_milli_cpu(cpu, where=".status.cpus")
    slots = parse_bytes(size, where=".status.memorySize") // slot_bytes
    if milli == 0 or slots == 0:
        return None
    return resources(milli, slots)


def _endpoint(annotations: Object, labels: Object) -> str | None:
    where = f".metadata.annotations[{BILLING_ANNOTATION}]"
    return optional_text(annotations, BILLING_ANNOTATION, where) or optional_text(
        labels, ENDPOINT_LABEL, f".metadata.labels[{ENDPOINT_LABEL}]"
    )


def _warnings(use: Resources, low: Resources, high: Resources) -> tuple[str, ...]:
    if use.has_field_below(low) or use.has_field_above(high):
        return (f".spec.guest: use ({_say(use)}) is outside min ({_say(low)}) and max ({_say(high)})",)
    return ()


def _say(amount: Resources) -> str:
    return f"cpu {json.dumps(format_milli_cpu(amount.cpu))}, {amount.mem} slots"
