"""What is known of a cluster's VMs: events of lists and watches, folded into the last word on each VM.

One that can't be read any more keeps its last description in the inventory, so its runner goes on polling it;
nothing is asked of the platform for it until it can be read again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.adapters.kubernetes_api import JsonObject
from app.adapters.kubernetes_watch import Kind, WatchEvent
from app.core.model import ScalingConfig
from app.errors import InvalidInput
from app.ports.platform import Cursor, InventoryChange
from app.ports.vm import Address, MonitorPolicy, VirtualMachine, VmKey
from app.protocols.managed_fields import OUR_MANAGER
from app.protocols.virtual_machine import (
    Selection,
    UseBasis,
    VmObject,
    is_ours,
    key_of,
    read_virtual_machine,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VmPorts:
    """Where the servers of a VM's pod listen."""

    metrics: int
    monitor: int
    informant: int


@dataclass(frozen=True, slots=True)
class FleetRules:
    """What is ours, and what VMs that say nothing of their own get.

    Attributes:
        namespaces: only these; none: all.
        label_selector: narrows what the API server sends, beside `selection`.
        field_selector: likewise.
    """

    selection: Selection
    targets: ScalingConfig
    ports: VmPorts
    namespaces: tuple[str, ...] = ()
    label_selector: str | None = None
    field_selector: str | None = None


@dataclass(frozen=True, slots=True)
class KnownVm:
    """A VM as its object told last, with what a patch of it is based on.

    Attributes:
        warnings: what is odd about it without being wrong.
    """

    vm: VirtualMachine
    basis: UseBasis
    version: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableVm:
    """An object of ours that can't be read.

    Attributes:
        problem: the field's path, and what is wrong with it.
    """

    uid: str
    version: str
    problem: str


class KnownFleet:
    """The VMs of one life of the watches; `fold` takes their events in the order in which they come.

    Attributes:
        vms: those that can be read.
        unreadable: those that can't.

    Args:
        earlier: VMs as they were before the list.
    """

    def __init__(self, rules: FleetRules, earlier: dict[VmKey, KnownVm] | None = None) -> None:
        self._rules = rules
        self.vms: dict[VmKey, KnownVm] = {}
        self.unreadable: dict[VmKey, UnreadableVm] = {}
        self._earlier: dict[VmKey, KnownVm] = earlier or {}

    def begin_anew(self) -> KnownFleet:
        """An empty one, to read a list into; this one stays as it is, for whoever asks meanwhile."""
        return KnownFleet(self._rules, self.vms)

    def fold(self, cursor: Cursor, events: Sequence[WatchEvent]) -> InventoryChange:
        """The last word on each VM; what is older than what is known is left out."""
        updated: dict[VmKey, VirtualMachine] = {}
        removed: dict[VmKey, None] = {}
        for event in events:
            key = VmKey("/".join(key_of(event.item)))
            if self._is_outdated(key, event):
                continue
            updated.pop(key, None)
            if event.kind is Kind.DELETED or not is_ours(event.item, self._rules.selection):
                if self._forget(key):
                    removed[key] = None
                continue
            if self._uid_of(key) not in (None, _text(event.item, "uid")):
                self._forget(key)
                removed[key] = None
            try:
                found = self._take(event.item)
            except InvalidInput as err:
                self.vms.pop(key, None)
                self.unreadable[key] = UnreadableVm(
                    _text(event.item, "uid"), _text(event.item, "resourceVersion"), str(err)
                )
                continue
            updated[key] = found
        seen = {VmKey("/".join(key_of(event.item))): None for event in events}
        unreadable = tuple((key, self.unreadable[key].problem) for key in seen if key in self.unreadable)
        return InventoryChange(cursor, False, tuple(updated.values()), tuple(removed), unreadable)

    def _take(self, item: JsonObject) -> VirtualMachine:
        found = read_virtual_machine(item, self._rules.selection, self._rules.targets)
        writer = self._writer(found)
        vm = _machine(found, self._rules.ports, writer, self._overwrites(found, writer))
        self._warn(vm.key, found)
        self.vms[vm.key] = KnownVm(vm, found.basis, _text(item, "resourceVersion"), found.warnings)
        self.unreadable.pop(vm.key, None)
        return vm

    def _warn(self, key: VmKey, found: VmObject) -> None:
        """Log what is odd, once for as long as it stays the same."""
        known = self._known(found)
        for warning in found.warnings:
            if known is None or warning not in known.warnings:
                logger.warning("VM is odd", extra={"vm": key[:200], "reason": warning[:200]})

    def _known(self, found: VmObject) -> KnownVm | None:
        """The same VM as it was, also before a list."""
        key = VmKey(f"{found.namespace}/{found.name}")
        known = self.vms.get(key) or self._earlier.get(key)
        return None if known is None or known.vm.uid != found.uid else known

    def _overwrites(self, found: VmObject, writer: str | None) -> int:
        known = self._known(found)
        if known is None:
            return 0
        is_others = known.vm.use != found.use and writer not in (None, OUR_MANAGER)
        return known.vm.overwrites + int(is_others)

    def _writer(self, found: VmObject) -> str | None:
        """Who set its `use` to what it is, as far as it has changed since we know the VM."""
        known = self._known(found)
        if known is None:
            return found.use_writers.of_either()
        if known.vm.use == found.use:
            return known.vm.use_writer
        return found.use_writers.of_change(known.vm.use, found.use)

    def _forget(self, key: VmKey) -> bool:
        """Whether anything was known of it."""
        known, unreadable = self.vms.pop(key, None), self.unreadable.pop(key, None)
        return known is not None or unreadable is not None

    def _uid_of(self, key: VmKey) -> str | None:
        known, unreadable = self.vms.get(key), self.unreadable.get(key)
        return known.vm.uid if known is not None else None if unreadable is None else unreadable.uid

    def _is_outdated(self, key: VmKey, event: WatchEvent) -> bool:
        """Whether it tells of an earlier VM of that name, or of an earlier state.

        Versions that are no numbers can't be compared: then the order of events is what counts.
        """
        known = self.vms.get(key) or self.unreadable.get(key)
        if known is None:
            return False
        if event.kind is Kind.DELETED and _text(event.item, "uid") != self._uid_of(key):
            return True
        version, before = _text(event.item, "resourceVersion"), known.version
        is_comparable = version.isascii() and version.isdigit() and before.isascii() and before.isdigit()
        return is_comparable and int(version) < int(before)


def _machine(found: VmObject, ports: VmPorts, use_writer: str | None, overwrites: int) -> VirtualMachine:
    at = found.pod_ip
    return VirtualMachine(
        namespace=found.namespace,
        name=found.name,
        uid=found.uid,
        node=found.node,
        min=found.min,
        max=found.max,
        use=found.use,
        observed=found.observed,
        slot_bytes=found.slot_bytes,
        scaling_config=found.scaling_config,
        mode=found.mode,
        monitor=MonitorPolicy.REQUIRED,
        metrics=None if at is None else Address(at, ports.metrics),
        monitor_address=None if at is None else Address(at, ports.monitor),
        migrating=found.migrating,
        endpoint_id=found.endpoint_id,
        informant=None if at is None else Address(at, ports.informant),
        use_writer=use_writer,
        overwrites=overwrites,
        pod_name=found.pod_name,
    )


def _text(item: JsonObject, name: str) -> str:
    """A field of the metadata; "" where it is no text."""
    metadata = item.get("metadata")
    found = metadata.get(name) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""
