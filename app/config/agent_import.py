"""The NeonVM autoscaler-agent's own configuration file, of any of its versions, as one of ours.

Names that we share are kept as they are (`spec/agent.md`). Later versions moved some values and write
durations as text (`"responseTimeout": "5s"`); these are brought to our names. What has no place here is told,
each with its path and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast, get_args

from pydantic import BaseModel

from app.config.document import parse_document
from app.config.settings import FileSettings
from app.errors import ConfigurationError

Values = dict[str, object]

_MOVED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("neonvm",): ("scaling",),
    ("metrics", "system"): ("metrics",),
    ("billing", "clients", "http"): ("billing",),
}
"""Where later versions keep what was elsewhere at first; ours is the first place."""

_SECTIONS = {(name,) for name in ("scaling", "metrics", "scheduler", "monitor", "billing", "dumpState")}
"""Sections of the agent that are ours too."""

_REASONS: Mapping[str, str] = {
    "informant": "the agent's first protocol is replaced by the vm-monitor's",
    "maxFailedRequestRate": "a VM whose requests fail is shown as stuck or errored without a threshold",
    "lfc": "targets from a file cache's metrics are not supported",
    "clients": "only the HTTP client is supported",
}
_OTHERWISE = "no such setting here"

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")


@dataclass(slots=True)
class Imported:
    """What came of a file.

    Attributes:
        values: our configuration, not yet validated.
        left_out: (path in the file, why) of what has no place in it.
    """

    values: Values = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def config_of(document: Mapping[str, object], source: str) -> Mapping[str, object]:
    """The agent's configuration itself: the document, or what a ConfigMap holds as `config.json`.

    Raises:
        ConfigurationError: a ConfigMap without it, or its text is no JSON object.
    """
    if document.get("kind") != "ConfigMap":
        return document
    match document.get("data"):
        case {"config.json": str(text)}:
            return parse_document(text, "config.json")
        case _:
            raise ConfigurationError([".data: this ConfigMap has no config.json"], source=source)


def import_agent_config(document: Mapping[str, object]) -> Imported:
    """Bring a document of the agent to our names; the platform is neonvm.

    Args:
        document: the whole file, as `parse_document` reads it.
    """
    found = Imported()
    _take(found, (), document)
    found.values["platform"] = {"kind": "neonvm"}
    return found


def _take(found: Imported, at: tuple[str, ...], document: Mapping[str, object]) -> None:
    for name, value in document.items():
        path = (*at, name)
        if value is None:
            continue
        if isinstance(value, dict) and (path in _SECTIONS or any(way[: len(path)] == path for way in _MOVED)):
            _take(found, path, value)
        else:
            _place(found, path, value)


def _place(found: Imported, path: tuple[str, ...], value: object) -> None:
    """Put one value of a section where we keep it, or tell that there is no place."""
    at = _MOVED.get(path[:-1], path[:-1])
    section = _section(at[0]) if len(at) == 1 else None
    setting = None if section is None else _setting(section, path[-1], value)
    if section is None or setting is None:
        found.left_out.append(("." + ".".join(path), _reason(path, section)))
        return
    name, converted = setting
    inner = cast(Values, found.values.setdefault(at[0], {}))
    if isinstance(converted, dict):
        converted = _inner_values(found, path, section, name, converted)
        if name == "computeUnit" and isinstance(converted.get("mem"), str):
            why = "its memory is in bytes, ours in slots: set it by hand"
            found.left_out.append(("." + ".".join(path), why))
            return
    # A value in its first place goes before the same one that was moved.
    if at == path[:-1] or name not in inner:
        inner[name] = converted


def _inner_values(
    found: Imported, path: tuple[str, ...], section: type[BaseModel], name: str, values: Values
) -> Values:
    """Those values of an object that we have too; the others are told."""
    model = _model_of(section, name)
    if model is None:
        return values
    known = {each.alias for each in model.model_fields.values()}
    for extra in values:
        if extra not in known:
            found.left_out.append((".".join(("", *path, extra)), _reason((*path, extra))))
    return {each: kept for each, kept in values.items() if each in known}


def _section(name: str) -> type[BaseModel] | None:
    return _model_of(FileSettings, name)


def _setting(section: type[BaseModel], name: str, value: object) -> tuple[str, object] | None:
    """Our name and value for a field of a section; a duration as text becomes seconds."""
    known = {each.alias for each in section.model_fields.values()}
    if name in known:
        return name, value
    if f"{name}Seconds" in known and isinstance(value, str) and (seconds := _seconds(value)) is not None:
        return f"{name}Seconds", seconds
    return None


def _seconds(text: str) -> float | None:
    """Seconds of a Go duration such as `1m30s`; None if it is none."""
    if len(text) > 64 or _DURATION.fullmatch(text) is None:
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    return int(total) if total == int(total) else total


def _model_of(section: type[BaseModel], alias: str) -> type[BaseModel] | None:
    return next(
        (_model(each.annotation) for each in section.model_fields.values() if each.alias == alias), None
    )


def _model(annotation: object) -> type[BaseModel] | None:
    """The section that a field's type is, or may be."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


def _reason(path: tuple[str, ...], section: type[BaseModel] | None = None) -> str:
    """Why a value has no place; `section` is where its place would be."""
    if path in _SECTIONS or path in _MOVED:
        return "must be an object"
    if section is not None and f"{path[-1]}Seconds" in {each.alias for each in section.model_fields.values()}:
        return "no duration such as 5s or 1m30s"
    return next((reason for name, reason in _REASONS.items() if name in path), _OTHERWISE)
