"""What the API server double keeps: versioned objects, a log of events, and JSON Patch as it is."""

from __future__ import annotations

import copy
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


class ApiError(Exception):
    """A Status answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code, self.reason, self.message = code, reason, message
        super().__init__(message)

    def body(self) -> Json:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }


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
        """Create or replace, behind every client's back."""
        with self.changed:
            key = _key(resource, item)
            old = self.objects.get(key)
            new = copy.deepcopy(item)
            new["metadata"].setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
            note_manager(old, new, self._managers.get(key, "kubectl"))
            return self._store("MODIFIED" if old else "ADDED", key, old, new)

    def create(self, resource: str, item: Json, manager: str = "kubectl") -> Json:
        with self.changed:
            if _key(resource, item) in self.objects:
                raise ApiError(
                    409, "AlreadyExists", f'{resource} "{item["metadata"]["name"]}" already exists'
                )
            new = copy.deepcopy(item)
            new["metadata"]["uid"] = str(uuid.uuid4())
            note_manager(None, new, manager)
            self.validate(resource, new)
            return self._store("ADDED", _key(resource, new), None, new)

    def update(self, resource: str, namespace: str, name: str, item: Json, manager: str = "kubectl") -> Json:
        """Replace, refused if the resourceVersion that it names is not the present one."""
        with self.changed:
            old = self.get(resource, namespace, name)
            named = item["metadata"].get("resourceVersion")
            if named and named != old["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", f'the object "{name}" has been modified')
            new = copy.deepcopy(item)
            new["metadata"]["uid"] = old["metadata"]["uid"]
            note_manager(old, new, manager)
            self.validate(resource, new)
            return self._store("MODIFIED", (resource, namespace, name), old, new)

    def get(self, resource: str, namespace: str, name: str) -> Json:
        with self.changed:
            found = self.objects.get((resource, namespace, name))
            if found is None:
                raise ApiError(404, "NotFound", f'{resource} "{name}" not found')
            return copy.deepcopy(found)

    def delete(self, resource: str, namespace: str, name: str) -> Json:
        with self.changed:
            old = self.get(resource, namespace, name)
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
            kept, taken = (old, new) if status else (new, old)
            new = copy.deepcopy(kept)
            new.pop("status", None)
            if "status" in taken:
                new["status"] = copy.deepcopy(taken["status"])
            self.validate(resource, new)
            if _without_version(new) == _without_version(old):
                return old
            note_manager(old, new, manager)
            return self._store("MODIFIED", (resource, namespace, name), old, new)

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

    def _store(self, kind: str, key: tuple[str, str, str], old: Json | None, new: Json) -> Json:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = new
        self._note(Change(self.version, kind, key[0], old, copy.deepcopy(new)))
        return copy.deepcopy(new)

    def _note(self, change: Change) -> None:
        self.log.append(change)
        self.changed.notify_all()


def note_manager(old: Json | None, new: Json, manager: str) -> None:
    """Keep account of who set `use` last, as far as it is used here: one entry, for both fields."""
    uses = [
        None if item is None else [(item.get("spec") or {}).get("guest", {}).get(name) for name in _USED]
        for item in (old, new)
    ]
    if uses[0] == uses[1] or uses[1] == [None, None]:
        return
    use = {"f:use": {}}
    fields = {"f:spec": {"f:guest": {"f:cpus": use, "f:memorySlots": use}}}
    entry = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    new["metadata"]["managedFields"] = [{**entry, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}]


_USED = ("cpus", "memorySlots")


def apply_patch(item: Json, operations: Any) -> Json:
    """RFC 6902 with `test`, `replace`, `add` and `remove`; one that fails changes nothing."""
    if not isinstance(operations, list):
        raise ApiError(400, "BadRequest", "a JSON Patch is a list of operations")
    found = copy.deepcopy(item)
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        inner = found
        for part in way:
            if part not in inner:
                raise ApiError(422, "Invalid", _PATCH_FAILED)
            inner = inner[part]
        match operation["op"]:
            case "test":
                # JSON equality: 1, "1" and true are three values.
                if last not in inner or json.dumps(inner[last]) != json.dumps(operation["value"]):
                    raise ApiError(422, "Invalid", _PATCH_FAILED)
            case "replace" if last in inner:
                inner[last] = operation["value"]
            case "add":
                inner[last] = operation["value"]
            case "remove" if last in inner:
                del inner[last]
            case _:
                raise ApiError(422, "Invalid", _PATCH_FAILED)
    return found


_PATCH_FAILED = "the server rejected our request due to an error in our request"


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


def _without_version(item: Json) -> Json:
    metadata = {name: value for name, value in item["metadata"].items() if name != "resourceVersion"}
    return {**item, "metadata": metadata}
