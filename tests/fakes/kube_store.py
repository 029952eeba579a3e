"""What the API server double keeps: versioned objects, and a log of what has changed."""

from __future__ import annotations

import copy
import threading
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes.kube_leases import check_lease
from tests.fakes.kube_managers import note_manager
from tests.fakes.kube_patch import apply_patch
from tests.fakes.kube_resources import (
    ApiError,
    Json,
    exists_already,
    invalid,
    is_another,
    is_changed,
    names_no_version,
    not_found,
    resource_of,
)
from tests.fakes.kube_schema import admit, vm_schema

__all__ = ["ApiError", "Change", "Json", "KubeStore", "matches"]

_SERVERS_OWN = ("uid", "creationTimestamp", "generation", "managedFields")
"""Of the metadata: no client's update changes it."""


@dataclass(frozen=True)
class Change:
    version: int
    kind: str
    resource: str
    old: Json | None
    new: Json


class KubeStore:
    """Objects by (resource, namespace, name); one version counter for all, as etcd has.

    Attributes:
        validate: called with the resource and each new object; raises ApiError to refuse it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1000
        self.compacted = 0
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.log: list[Change] = []
        self.validate: Callable[[str, Json], None] = lambda resource, item: None
        self._managers: dict[tuple[str, str, str], str] = {}

    def set_manager(self, resource: str, namespace: str, name: str, manager: str) -> None:
        """Whose `put` the next ones of an object are."""
        self._managers[resource, namespace, name] = manager

    def put(self, resource: str, item: Json) -> Json:
        """Create or replace, behind every client's back: whatever it holds."""
        with self.changed:
            key = _key(resource, item)
            old = self.objects.get(key)
            new = copy.deepcopy(item)
            self._fill_in(resource, old, new)
            note_manager(old, new, self._managers.get(key, "kubectl"))
            return self._store("MODIFIED" if old else "ADDED", key, old, new)

    def create(self, resource: str, item: Json, manager: str = "kubectl") -> Json:
        """A new object, without the status, which is given later.

        Raises:
            ApiError: its name is had already, or it is not valid.
        """
        with self.changed:
            new = copy.deepcopy(item)
            metadata = new["metadata"]
            if metadata.get("resourceVersion"):
                raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
            if resource_of(resource).has_status:
                new.pop("status", None)
            for name in _SERVERS_OWN:
                metadata.pop(name, None)
            if resource == "pods":
                new["status"] = {"phase": "Pending"}
            self._fill_in(resource, None, new)
            self._admit(resource, new)
            if _key(resource, item) in self.objects:
                raise exists_already(resource, metadata["name"])
            note_manager(None, new, manager)
            return self._store("ADDED", _key(resource, new), None, new)

    def update(
        self,
        resource: str,
        namespace: str,
        name: str,
        item: Json,
        *,
        status: bool = False,
        manager: str = "kubectl",
    ) -> Json:
        """Replace, refused if the version or uid that it names is not the present one."""
        with self.changed:
            new, found = copy.deepcopy(item), resource_of(resource)
            metadata = new["metadata"]
            version, uid = (metadata.get(each) for each in ("resourceVersion", "uid"))
            if found.made_by_update and (resource, namespace, name) not in self.objects:
                if uid:
                    raise is_another(resource, name, uid, "")
                # Whatever version it names: a new one is made.
                metadata.pop("resourceVersion", None)
                return self.create(resource, new, manager)
            old = self.get(resource, namespace, name)
            if uid and uid != old["metadata"]["uid"]:
                raise is_another(resource, name, uid, old["metadata"]["uid"])
            if not version and found.needs_version:
                raise names_no_version(resource, name)
            if version and version != old["metadata"]["resourceVersion"]:
                raise is_changed(resource, name)
            return self._change((resource, namespace, name), old, new, status=status, manager=manager)

    def get(self, resource: str, namespace: str, name: str) -> Json:
        with self.changed:
            found = self.objects.get((resource, namespace, name))
            if found is None:
                raise not_found(resource, name)
            return copy.deepcopy(found)

    def delete(self, resource: str, namespace: str, name: str, options: Json | None = None) -> Json:
        """Delete it, if it is the one that the options' preconditions name; as it was."""
        with self.changed:
            old = self.get(resource, namespace, name)
            for field, value in ((options or {}).get("preconditions") or {}).items():
                if value != old["metadata"][field]:
                    raise is_another(resource, name, value, old["metadata"][field], field)
            del self.objects[(resource, namespace, name)]
            self.version += 1
            gone = copy.deepcopy(old)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._note(Change(self.version, "DELETED", resource, old, gone))
            return gone

    def patch(
        self,
        resource: str,
        namespace: str,
        name: str,
        operations: Any,
        *,
        status: bool = False,
        manager: str = "kubectl",
    ) -> Json:
        """JSON Patch; of the object without its status, or with `status` of nothing else."""
        with self.changed:
            old = self.get(resource, namespace, name)
            new = apply_patch(old, operations)
            return self._change((resource, namespace, name), old, new, status=status, manager=manager)

    def since(self, version: int) -> list[Change]:
        """What has changed after a version, in order."""
        return self.log[bisect_right(self.log, version, key=lambda change: change.version) :]

    def compact(self) -> None:
        """Forget the log: a watch from before now is answered 410."""
        with self.changed:
            self.compacted = self.version
            self.log.clear()
            self.changed.notify_all()

    def bump(self) -> None:
        """Something else in the cluster has changed: versions go on, our objects don't."""
        with self.changed:
            self.version += 100
            self.changed.notify_all()

    def _change(self, key: tuple[str, str, str], old: Json, new: Json, *, status: bool, manager: str) -> Json:
        """Take over the status alone, or all but it; a change of nothing makes no version."""
        resource = key[0]
        if resource_of(resource).has_status:
            kept, taken = (old, new) if status else (new, old)
            new = copy.deepcopy(kept)
            new.pop("status", None)
            if "status" in taken:
                new["status"] = copy.deepcopy(taken["status"])
        for name in (*_SERVERS_OWN, "resourceVersion"):
            new["metadata"].pop(name, None)
        self._fill_in(resource, old, new)
        self._admit(resource, new)
        note_manager(old, new, manager, is_status=status)
        if _is_same(old, new):
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        return self._store("MODIFIED", key, old, new)

    def _fill_in(self, resource: str, old: Json | None, new: Json) -> None:
        """What the server itself says of an object."""
        found = resource_of(resource)
        new.setdefault("apiVersion", found.api_version)
        new.setdefault("kind", found.kind)
        made_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fresh = {"uid": str(uuid.uuid4()), "creationTimestamp": made_at, "generation": 1}
        for name, value in fresh.items():
            new["metadata"].setdefault(name, (old or {}).get("metadata", {}).get(name, value))

    def _admit(self, resource: str, new: Json) -> None:
        if resource_of(resource).is_custom and (causes := admit(vm_schema(), new)):
            raise invalid(resource, new["metadata"]["name"], causes)
        if resource == "leases":
            check_lease(new)
        self.validate(resource, new)

    def _store(self, kind: str, key: tuple[str, str, str], old: Json | None, new: Json) -> Json:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = new
        self._note(Change(self.version, kind, key[0], old, copy.deepcopy(new)))
        return copy.deepcopy(new)

    def _note(self, change: Change) -> None:
        self.log.append(change)
        self.changed.notify_all()


def matches(item: Json, label_selector: str, field_selector: str) -> bool:
    """Equality selectors, which is what is used here: `a=b,c!=d`, and a bare label that must be there."""
    labels = item["metadata"].get("labels") or {}
    fields = {
        "metadata.name": item["metadata"]["name"],
        "metadata.namespace": item["metadata"].get("namespace"),
    }
    return all(
        _holds(values, part)
        for text, values in ((label_selector, labels), (field_selector, fields))
        for part in text.split(",")
        if part
    )


def _holds(values: Json, part: str) -> bool:
    if "!=" in part:
        name, _, value = part.partition("!=")
        return bool(values.get(name) != value)
    if "=" in part:
        name, _, value = part.partition("=")
        return bool(values.get(name) == value.removeprefix("="))
    return part in values


def _key(resource: str, item: Json) -> tuple[str, str, str]:
    return resource, item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _is_same(old: Json, new: Json) -> bool:
    """But for the version, and who has written it."""

    def essence(item: Json) -> Json:
        left_out = ("resourceVersion", "managedFields")
        return {**item, "metadata": {n: v for n, v in item["metadata"].items() if n not in left_out}}

    return essence(old) == essence(new)
