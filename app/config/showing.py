"""The values in force, as an operator may see them: by their names in the file, secrets as `***`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from app.config.problems import Location, dotted, leaves
from app.config.settings import Settings, Source


def effective_values(settings: Settings) -> tuple[dict[str, object], dict[str, Source]]:
    """The values by section, and where each one comes from, by its path."""
    values = _sections(settings)
    paths = map(dotted, leaves(values))
    return values, {path: settings.sources.get(path, "default") for path in paths}


def effective_yaml(settings: Settings) -> str:
    """The values as YAML, each with its source as a comment; a file that can be read again."""
    lines = list(_yaml(_sections(settings), (), settings))
    width = min(max(len(line) for line, _ in lines), 72)
    return "".join(f"{line.ljust(width)}  # {source}\n" if source else f"{line}\n" for line, source in lines)


def values_yaml(values: dict[str, object]) -> str:
    """Values by section as YAML, a file that can be read again."""
    return "".join(f"{line}\n" for line in _plain_yaml(values, ""))


def plain(value: object) -> object:
    """A value without the `.0` of whole seconds."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [plain(child) for child in value]
    return value


def _sections(settings: Settings) -> dict[str, object]:
    dumped = settings.model_dump(by_alias=True, exclude={"env", "sources"})
    return {name: plain(value) for name, value in dumped.items()}


def _yaml(values: dict[str, object], location: Location, settings: Settings) -> Iterator[tuple[str, str]]:
    """Lines, each with its source; `""` for the line of an object."""
    margin = "  " * len(location)
    for key, value in values.items():
        place = (*location, key)
        if isinstance(value, dict) and value:
            yield f"{margin}{key}:", ""
            yield from _yaml(value, place, settings)
        else:
            yield f"{margin}{key}: {json.dumps(value, ensure_ascii=False)}", _source(place, settings)


def _plain_yaml(values: dict[str, object], margin: str) -> Iterator[str]:
    for key, value in values.items():
        name = key if key.isidentifier() else json.dumps(key)
        if isinstance(value, dict) and value:
            yield f"{margin}{name}:"
            yield from _plain_yaml(value, margin + "  ")
        else:
            yield f"{margin}{name}: {json.dumps(value, ensure_ascii=False)}"


def _source(place: Location, settings: Settings) -> Source:
    """Where a value comes from; a list comes from where its entries do."""
    path = dotted(place)
    if path in settings.sources:
        return settings.sources[path]
    entries = (source for known, source in settings.sources.items() if known.startswith(f"{path}["))
    return next(entries, "default")
