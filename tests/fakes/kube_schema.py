"""What an API server makes of a custom resource by its CRD: defaults, unknown fields cut off, refusals.

It is the same file that a real API server is given (`tests/data/virtualmachine-crd.json`), as far as that
uses what OpenAPI has: what it doesn't know it refuses to load.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

CRD = Path(__file__).parent.parent / "data" / "virtualmachine-crd.json"
INT_OR_STRING = "x-kubernetes-int-or-string"
_KNOWN = {
    "type", "properties", "required", "additionalProperties", "format", "minimum", "maximum", "default",
    "enum", "pattern", "anyOf", INT_OR_STRING,
}  # fmt: skip

Json = dict[str, Any]


@cache
def vm_schema() -> Json:
    """The schema of VirtualMachines."""
    schema: Json = json.loads(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    _check_known(schema)
    return schema


def admit(schema: Json, value: Json) -> list[Json]:
    """Cut off what is unknown, put in defaults, in place; the causes why it is refused, none: it is not."""
    for name, inner in schema["properties"].items():
        if name in value and inner.get("properties"):
            _shape(inner, value[name])
    causes: list[Json] = []
    _judge(schema, value, "", causes)
    return causes


def _check_known(schema: Json) -> None:
    unknown = set(schema) - _KNOWN
    assert not unknown, f"the double does not know {unknown}"
    for inner in schema.get("properties", {}).values():
        _check_known(inner)


def _shape(schema: Json, value: Any) -> None:
    properties = schema.get("properties")
    if not properties or not isinstance(value, dict):
        return
    for name in set(value) - set(properties):
        del value[name]
    for name, inner in properties.items():
        if name not in value and "default" in inner:
            value[name] = inner["default"]
        if value.get(name, ...) is None:
            # A null is as good as nothing, where the field has no `nullable`.
            del value[name]
        if name in value:
            _shape(inner, value[name])


def _judge(schema: Json, value: Any, path: str, causes: list[Json]) -> None:
    if not _is_of_type(schema, value):
        kind = "integer,string" if schema.get(INT_OR_STRING) else schema["type"]
        told = json.dumps(_type_of(value))
        _add(
            causes,
            "TypeInvalid",
            path,
            f"Invalid value: {told}: {path} in body must be of type {kind}: {told}",
        )
        return
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                _add(causes, "Required", f"{path}.{name}".lstrip("."), "Required value")
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                _judge(inner, value[name], f"{path}.{name}".lstrip("."), causes)
        if extra := schema.get("additionalProperties"):
            for name in value:
                _judge(extra, value[name], f"{path}.{name}", causes)
    elif isinstance(value, str):
        _judge_text(schema, value, path, causes)
    elif not isinstance(value, bool):
        _judge_number(schema, value, path, causes)


def _judge_text(schema: Json, value: str, path: str, causes: list[Json]) -> None:
    told = json.dumps(value)
    if "pattern" in schema and not re.search(schema["pattern"], value):
        said = f"Invalid value: {told}: {path} in body should match '{schema['pattern']}'"
        _add(causes, "Invalid", path, said)
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(json.dumps(each) for each in schema["enum"])
        _add(causes, "NotSupported", path, f"Unsupported value: {told}: supported values: {supported}")


def _judge_number(schema: Json, value: float, path: str, causes: list[Json]) -> None:
    for bound, word, is_past in (
        ("minimum", "greater", value < schema.get("minimum", value)),
        ("maximum", "less", value > schema.get("maximum", value)),
    ):
        if is_past:
            said = f"{path} in body should be {word} than or equal to {schema[bound]}"
            _add(causes, "Invalid", path, f"Invalid value: {value}: {said}")


def _is_of_type(schema: Json, value: Any) -> bool:
    if schema.get(INT_OR_STRING):
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    match schema["type"]:
        case "object":
            return isinstance(value, dict)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case _:
            is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_whole and not isinstance(value, bool)


def _type_of(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return kinds.get(type(value), "null")


def _add(causes: list[Json], reason: str, field: str, message: str) -> None:
    causes.append({"reason": f"FieldValue{reason}", "message": message, "field": field})
