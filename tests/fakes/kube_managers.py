"""`metadata.managedFields` as the API server double keeps them: who set each field last, by an update.

Server-side apply, with which several share a field, is not there; lists are one field each.
"""

from __future__ import annotations

import json
import time
from typing import Any

Json = dict[str, Any]
_Path = tuple[str, ...]

_KEPT = ("labels", "annotations")
"""Of the metadata; the rest is the server's own."""


def note_manager(old: Json | None, new: Json, manager: str, *, is_status: bool = False) -> None:
    """Give what has changed to the manager, and take it from the others; in place, in `new`."""
    before, after = _leaves(old), _leaves(new)
    changed = {path for path in after if path not in before or before[path] != after[path]}
    gone = before.keys() - after.keys()
    entries = [] if old is None else (old["metadata"].get("managedFields") or [])
    if not changed and not gone:
        if entries:
            new["metadata"]["managedFields"] = entries
        return
    found: list[tuple[Json, set[_Path]]] = []
    sub = {"subresource": "status"} if is_status else {}
    mine: set[_Path] = set()
    for entry in entries:
        paths = set(_paths(entry["fieldsV1"])) - gone
        if entry["manager"] == manager and entry.get("subresource") == sub.get("subresource"):
            mine |= paths
        else:
            found.append((entry, paths - changed))
    own = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": new.get("apiVersion", "v1"),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "fieldsType": "FieldsV1",
        **sub,
    }
    found.append((own, mine | changed))
    new["metadata"]["managedFields"] = [
        {**entry, "fieldsV1": _tree(paths)} for entry, paths in found if paths
    ]


def _leaves(item: Json | None) -> dict[_Path, str]:
    """The values by their paths, as JSON."""
    if item is None:
        return {}
    metadata = {name: item["metadata"][name] for name in _KEPT if item["metadata"].get(name)}
    kept = {name: value for name, value in item.items() if name not in ("metadata", "apiVersion", "kind")}
    return dict(_walk({**kept, "metadata": metadata}, ()))


def _walk(value: Any, path: _Path) -> list[tuple[_Path, str]]:
    if isinstance(value, dict) and (value or not path):
        return [leaf for name, inner in value.items() for leaf in _walk(inner, (*path, name))]
    return [(path, json.dumps(value))]


def _tree(paths: set[_Path]) -> Json:
    found: Json = {}
    for path in sorted(paths):
        at = found
        for name in path:
            at = at.setdefault(f"f:{name}", {})
    return found


def _paths(tree: Json, path: _Path = ()) -> list[_Path]:
    if not tree:
        return [path] if path else []
    return [leaf for name, inner in tree.items() for leaf in _paths(inner, (*path, name.removeprefix("f:")))]
