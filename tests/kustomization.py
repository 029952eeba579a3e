"""Builds a kustomization as `kubectl kustomize` does, as far as compose/kubernetes uses it.

A machine that has no kubectl checks the manifests with it; one that has holds it against the real thing.
Names that are generated get no hash at their end.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast one, where PyYAML has it."""

_KNOWN = {
    "apiVersion", "kind", "resources", "components", "images", "replicas", "patches",
    "configMapGenerator", "secretGenerator",
}  # fmt: skip


def build(directory: Path) -> list[Manifest]:
    """All objects of a kustomization; an error for a field that is not known here."""
    return _apply(directory, [])


def identity(manifest: Manifest) -> tuple[str, str, str]:
    """(kind, namespace, name); the name without the hash of a generated one."""
    metadata = manifest["metadata"]
    name = metadata["name"]
    if manifest["kind"] in ("ConfigMap", "Secret"):
        name = re.sub(r"-[a-z0-9]{10}\Z", "", name)
    return manifest["kind"], metadata.get("namespace", ""), name


def _apply(directory: Path, found: list[Manifest]) -> list[Manifest]:
    document = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert document.keys() <= _KNOWN, document.keys() - _KNOWN
    for name in document.get("resources", []):
        path = directory / name
        found = found + (_apply(path, []) if path.is_dir() else list(read_all(path)))
    for rule in document.get("configMapGenerator", []):
        found = _generate(found, directory, rule, "ConfigMap")
    for rule in document.get("secretGenerator", []):
        found = _generate(found, directory, rule, "Secret")
    for name in document.get("components", []):
        found = _apply(directory / name, found)
    for patch in document.get("patches", []):
        found = list(_patch(found, directory, patch))
    for image in document.get("images", []):
        _set_image(found, image)
    for each in document.get("replicas", []):
        (one,) = (
            item for item in found if "replicas" in item.get("spec", {}) and _name(item) == each["name"]
        )
        one["spec"]["replicas"] = each["count"]
    return found


def read_all(path: Path) -> Iterator[Manifest]:
    """Each document of a file of YAML."""
    return (each for each in yaml.load_all(path.read_text(), _LOADER) if each)


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _generate(found: list[Manifest], directory: Path, rule: Manifest, kind: str) -> list[Manifest]:
    data = {}
    for each in rule["files"]:
        name, _, path = each.rpartition("=")
        assert ".." not in path, "kubectl reads no files outside of the kustomization's directory"
        content = (directory / path).read_bytes()
        data[name or Path(path).name] = (
            base64.b64encode(content).decode() if kind == "Secret" else content.decode()
        )
    labels = rule.get("options", {}).get("labels")
    metadata = {
        "name": rule["name"],
        "namespace": rule["namespace"],
        **({"labels": labels} if labels else {}),
    }
    made = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}
    if kind == "Secret":
        made["type"] = "Opaque"
    same = [item for item in found if identity(item) == identity(made)]
    assert len(same) == (rule.get("behavior") == "replace")
    return [item for item in found if item not in same] + [made]


def _patch(found: list[Manifest], directory: Path, patch: Manifest) -> Iterator[Manifest]:
    operations = yaml.safe_load((directory / patch["path"]).read_text())
    hits = 0
    for item in found:
        if not _is_meant(item, patch["target"]):
            yield item
            continue
        hits += 1
        if isinstance(operations, dict):
            assert operations["$patch"] == "delete"
            continue
        changed = _changed(item, operations)
        may_change = patch.get("options", {}).get("allowKindChange", False)
        assert may_change or changed["kind"] == item["kind"]
        yield changed
    assert hits, f"{patch} changes nothing"


def _changed(item: Manifest, operations: list[Manifest]) -> Manifest:
    """JSON Patch, whose operations must each find their place."""
    changed: Any = copy.deepcopy(item)
    for operation in operations:
        *way, last = operation["path"].removeprefix("/").split("/")
        inner = changed
        for part in way:
            inner = inner[int(part) if isinstance(inner, list) else part]
        if operation["op"] == "add" and isinstance(inner, list):
            assert last == "-"
            inner.append(operation["value"])
            continue
        assert operation["op"] == "add" or last in inner
        if operation["op"] == "remove":
            del inner[last]
        else:
            inner[last] = operation["value"]
    return dict(changed)


def _is_meant(item: Manifest, target: Manifest) -> bool:
    assert target.keys() <= {"kind", "name", "labelSelector"}
    labels = item["metadata"].get("labels", {})
    wanted = dict(each.split("=") for each in target.get("labelSelector", "").split(",") if each)
    return (
        re.fullmatch(target.get("kind", ".*"), item["kind"]) is not None
        and re.fullmatch(target.get("name", ".*"), _name(item)) is not None
        and wanted.items() <= labels.items()
    )


def _set_image(found: list[Manifest], image: Manifest) -> None:
    for item in found:
        template = item.get("spec", {}).get("template", {})
        for container in template.get("spec", {}).get("containers", []):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
