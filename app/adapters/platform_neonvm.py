"""The platform `neonvm`: VirtualMachine objects of a Kubernetes API server, watched and patched.

Each worker watches the whole fleet (docs/adr/0005): a watch is one connection, and no other process has to
live for a VM to be scaled. Against two writers guards the patch's `test` of the values that it is based on.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from queue import Empty, Full, Queue

from app.adapters.kubernetes_api import ApiServer
from app.adapters.kubernetes_watch import MAX_EVENTS, Kind, ObjectWatch, WatchEvent
from app.adapters.neonvm_fleet import FleetRules, KnownFleet
from app.core.resources import Resources
from app.errors import InvalidInput, PeerError, PeerRefused, PeerTimedOut
from app.ports.platform import Cursor, InventoryChange
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey
from app.protocols.kubernetes_rights import Right, needed
from app.protocols.managed_fields import OUR_MANAGER
from app.protocols.virtual_machine import (
    GROUP,
    PLURAL,
    VERSION,
    VmObject,
    read_virtual_machine,
    resize_patch,
)

MAX_TAKEN = 1_000
"""Events of one answer; a caller that gets as many asks again at once."""

READ_AT_ONCE = 50
"""Objects of a list that are read between two switches: 2 ms."""

MIN_LIST_PAUSE_S, MAX_LIST_PAUSE_S = 0.5, 30.0
"""Between two lists where the first has expired, growing; the first one again is at once."""

TOLD_FAILURES = 3
"""Tries in a row to begin a watch, after which its failure is told."""

_DENIALS = ("denied the request", "denied request")
"""What the message says when a webhook or an admission policy, not a missing right, refused a change.

The code beside it is whatever the webhook has chosen: 400 if it has chosen none, and it may be a 404.
"""

_BASE = f"/apis/{GROUP}/{VERSION}"


class NeonvmPlatform:
    """`app.ports.platform.Platform` over an API server; `changes` is for one caller at a time."""

    def __init__(
        self, api: ApiServer, rules: FleetRules, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing connects yet."""
        self._api = api
        self._rules = rules
        self._monotonic = monotonic
        self._cursor: Cursor | None = None
        self._events: Queue[WatchEvent] = Queue(MAX_EVENTS)
        self._watches: list[ObjectWatch] = []
        self._fleet = KnownFleet(rules)
        self._is_expired = False
        self._listed_at = monotonic()
        self._list_pause_s = 0.0

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        """Events since the last call; the whole fleet if events were missed."""
        if cursor is None or cursor != self._cursor:
            return self._list()
        gathered = self._gather(wait_s)
        events = [event for event in gathered if event.kind is not Kind.EXPIRED]
        self._is_expired = self._is_expired or len(events) < len(gathered)
        if self._is_expired and self._may_list():
            return self._list()
        if not events and (failure := self._failure()) is not None:
            # Not a refusal, whatever it is: the list is still good, and the watch goes on by itself.
            raise PeerTimedOut(failure.peer, failure.problem)
        return self._fleet.fold(cursor, events)

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        """The size that the object's status tells."""
        found = self._read_object(vm, timeout_s)
        if found.observed is None:
            raise PeerRefused(self._api.peer, f"{vm.key}: .status tells no size")
        return found.observed

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        """One JSON Patch; refused with 412 (another basis), 422 (bounds, or not valid), 404, 403."""
        del token  # An object has no place for it: the patch's `test` is the guard.
        if target.has_field_above(vm.max) or target.has_field_below(vm.min):
            raise PeerRefused(self._api.peer, f"{vm.key}: the size is out of the VM's bounds", code=422)
        known = self._fleet.vms.get(vm.key)
        if known is None and (unreadable := self._fleet.unreadable.get(vm.key)) is not None:
            raise PeerRefused(self._api.peer, f"{vm.key}: {unreadable.problem}", code=422)
        if known is None or known.vm.uid != vm.uid:
            raise PeerRefused(self._api.peer, f"{vm.key} is gone", code=404)
        if known.vm.use != vm.use:
            raise self._conflict(vm, known.vm.use_writer)
        started = self._monotonic()
        try:
            answer = self._api.call(
                "PATCH",
                self._path(vm),
                query={"timeout": f"{max(timeout_s, 0.1):.1f}s", "fieldManager": OUR_MANAGER},
                body=resize_patch(vm.uid, known.basis, target),
                content_type="application/json-patch+json",
                timeout_s=timeout_s,
            )
        except PeerRefused as err:
            raise self._explain(vm, err, timeout_s - (self._monotonic() - started)) from err
        self._tell(WatchEvent(Kind.MODIFIED, answer))

    def unreadable_uid(self, key: VmKey) -> str | None:
        """The uid of an object of ours that can't be read now; None: there is no such one."""
        found = self._fleet.unreadable.get(key)
        return None if found is None or not found.uid else found.uid

    def close(self) -> None:
        """End the watches and close all connections."""
        for watch in self._watches:
            watch.close()
        self._api.close()

    # --- inventory ------------------------------------------------------------------------------------------

    def _list(self) -> InventoryChange:
        for watch in self._watches:
            watch.close()
        self._cursor = None
        self._events = Queue(MAX_EVENTS)
        selectors = _selectors(self._rules)
        self._watches = [
            ObjectWatch(self._api, path, selectors, self._events)
            for path in _collections(self._rules.namespaces)
        ]
        items = [item for watch in self._watches for item in watch.read_all()]
        before = {key: known.vm.uid for key, known in self._fleet.vms.items()}
        fleet = self._fleet.begin_anew()
        cursor = Cursor(str(uuid.uuid4()))
        updated: list[VirtualMachine] = []
        for start in range(0, len(items), READ_AT_ONCE):
            part = items[start : start + READ_AT_ONCE]
            updated += fleet.fold(cursor, [WatchEvent(Kind.ADDED, item) for item in part]).updated
            # Others' turn, sockets and timers included: a whole fleet takes a third of a second.
            time.sleep(0.001)
        self._fleet, unreadable = fleet, fleet.unreadable
        # Whoever has their names now: these VMs are gone.
        gone = [key for key, found in unreadable.items() if before.get(key, found.uid) != found.uid]
        problems = tuple((key, found.problem) for key, found in unreadable.items())
        self._cursor, self._is_expired, self._listed_at = cursor, False, self._monotonic()
        for watch in self._watches:
            watch.follow()
        return InventoryChange(cursor, True, tuple(updated), tuple(gone), problems)

    def _may_list(self) -> bool:
        """Whether it is time for another list: those that expire at once must not be read in a loop."""
        age_s = self._monotonic() - self._listed_at
        if age_s < self._list_pause_s:
            return False
        grown_s = max(self._list_pause_s * 2, MIN_LIST_PAUSE_S) * random.uniform(0.8, 1.2)  # noqa: S311
        self._list_pause_s = min(grown_s, MAX_LIST_PAUSE_S) if age_s < 2 * MAX_LIST_PAUSE_S else 0.0
        return True

    def _gather(self, wait_s: float) -> list[WatchEvent]:
        found: list[WatchEvent] = []
        try:
            found.append(self._events.get(timeout=wait_s) if wait_s > 0 else self._events.get_nowait())
            while len(found) < MAX_TAKEN:
                found.append(self._events.get_nowait())
        except Empty:
            pass
        return found

    def _failure(self) -> PeerError | None:
        if self._is_expired:
            return PeerTimedOut(self._api.peer, "lists expire as soon as they are read; a pause is made")
        return next((watch.problem for watch in self._watches if watch.failures >= TOLD_FAILURES), None)

    # --- one VM ---------------------------------------------------------------------------------------------

    def _read_object(self, vm: VirtualMachine, timeout_s: float) -> VmObject:
        """The object as it is now, told to the inventory as well."""
        try:
            item = self._api.call("GET", self._path(vm), timeout_s=timeout_s)
        except PeerRefused as err:
            raise self._explain(vm, err, 0.0) from err
        try:
            found = read_virtual_machine(item, self._rules.selection, self._rules.targets)
        except InvalidInput as err:
            raise PeerRefused(self._api.peer, f"{vm.key}: {err}") from err
        if found.uid != vm.uid:
            raise PeerRefused(self._api.peer, f"{vm.key} is another VM now", code=404)
        self._tell(WatchEvent(Kind.MODIFIED, item))
        return found

    def _explain(self, vm: VirtualMachine, err: PeerRefused, rest_s: float) -> PeerRefused:
        """What a refusal means; a conflict is read again, never overwritten."""
        if any(denial in err.problem for denial in _DENIALS):
            return PeerRefused(self._api.peer, err.problem, code=422)
        if err.code == 404:
            gone = {"namespace": vm.namespace, "name": vm.name, "uid": vm.uid}
            self._tell(WatchEvent(Kind.DELETED, {"metadata": gone}))
            return PeerRefused(self._api.peer, f"{vm.key} is gone", code=404)
        if err.code == 403:
            right = needed(("get", "patch"), Right("get", GROUP, PLURAL, vm.namespace))
            return PeerRefused(self._api.peer, f"{err.problem} ({right})", code=403)
        if err.code in (409, 422) and rest_s > 0:
            try:
                found = self._read_object(vm, rest_s)
            except PeerError as again:
                return again if isinstance(again, PeerRefused) and again.code == 404 else err
            if found.use != vm.use:
                return self._conflict(vm, found.use_writers.of_change(vm.use, found.use))
        return err

    def _conflict(self, vm: VirtualMachine, writer: str | None) -> PeerRefused:
        """Somebody else scales the VM too; who, as far as the object tells."""
        named = f" ({writer})" if writer is not None and writer != OUR_MANAGER else ""
        return PeerRefused(self._api.peer, f"{vm.key}: another writer{named} has changed its use", code=412)

    def _tell(self, event: WatchEvent) -> None:
        """An event that we know before the watch does; where there is no room the watch tells it later."""
        try:
            self._events.put_nowait(event)
        except Full:
            return

    @staticmethod
    def _path(vm: VirtualMachine) -> str:
        return f"{_BASE}/namespaces/{vm.namespace}/{PLURAL}/{vm.name}"


def _collections(namespaces: tuple[str, ...]) -> list[str]:
    if not namespaces:
        return [f"{_BASE}/{PLURAL}"]
    return [f"{_BASE}/namespaces/{namespace}/{PLURAL}" for namespace in namespaces]


def _selectors(rules: FleetRules) -> dict[str, str]:
    """What the API server sorts out for us; with an observed label there are two kinds of ours."""
    labels = [] if rules.selection.observe_label else [f"{rules.selection.enabled_label}=true"]
    labels += [rules.label_selector] if rules.label_selector else []
    found = {"labelSelector": ",".join(labels), "fieldSelector": rules.field_selector or ""}
    return {name: value for name, value in found.items() if value}
