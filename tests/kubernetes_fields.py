"""The fields that Kubernetes' published API has, for a check of manifests without a cluster.

tests/data/kubernetes-fields.json.gz is made of the API's own description, `api/openapi-spec/swagger.json` of
the module k8s.io/kubernetes, by

    python -m tests.kubernetes_fields SWAGGER VERSION
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

FILE = Path(__file__).parent / "data" / "kubernetes-fields.json.gz"

KINDS = (
    "v1 Namespace", "v1 ServiceAccount", "v1 ConfigMap", "v1 Secret", "v1 Service", "v1 Event",
    "apps/v1 Deployment", "apps/v1 DaemonSet", "apps/v1 StatefulSet",
    "policy/v1 PodDisruptionBudget", "networking.k8s.io/v1 NetworkPolicy",
    "rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding",
    "coordination.k8s.io/v1 Lease", "discovery.k8s.io/v1 EndpointSlice",
)  # fmt: skip
"""Version and kind of what is described."""

_OPEN = ("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",)
"""What only a server writes."""

_KEPT = ("type", "enum", "required")

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def problems(manifest: dict[str, Any]) -> list[str]:
    """Fields that the kind has not, or that have a wrong type, and those that are missing; a line each."""
    kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
    described = _read()
    if kind not in described["kinds"]:
        return [f"{kind} is not described"]
    name = described["kinds"][kind]
    schema = {"$ref": f"#/definitions/{name}", "definitions": described["definitions"]}
    found = jsonschema.Draft7Validator(schema).iter_errors(manifest)
    return [f"{kind} {error.json_path}: {error.message}" for error in found]


@cache
def _read() -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(FILE.read_bytes())))


class _Reader:
    """Takes definitions out of a description, and all that they refer to."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._all = definitions
        self.taken: dict[str, Any] = {}

    def take(self, name: str) -> None:
        """One definition."""
        if name in self.taken:
            return
        self.taken[name] = {}
        if name == _QUANTITY:
            self.taken[name] = {"type": ["string", "number"]}
        elif name not in _OPEN:
            self.taken[name] = self._strict(self._all[name])

    def _strict(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self.take(name)
            return {"$ref": f"#/definitions/{name}"}
        if schema.get("format") == "int-or-string":
            return {"type": ["string", "integer"]}
        found: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
        if "properties" in schema:
            found["properties"] = {key: self._strict(each) for key, each in schema["properties"].items()}
            found["additionalProperties"] = False
        elif "additionalProperties" in schema:
            found["additionalProperties"] = self._strict(schema["additionalProperties"])
        if "items" in schema:
            found["items"] = self._strict(schema["items"])
        return found


def main(swagger: str, version: str) -> None:
    """Write the file anew."""
    definitions = json.loads(Path(swagger).read_text())["definitions"]
    kinds = {}
    reader = _Reader(definitions)
    for name, schema in definitions.items():
        for known in schema.get("x-kubernetes-group-version-kind", [])[:1]:
            place = f"{known['group']}/{known['version']}".lstrip("/")
            if f"{place} {known['kind']}" in KINDS:
                kinds[f"{place} {known['kind']}"] = name
                reader.take(name)
    source = f"Kubernetes {version}, names and types of fields, without their descriptions"
    document = {"source": source, "kinds": kinds, "definitions": reader.taken}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
