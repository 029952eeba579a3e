"""The configuration file as plain values: JSON or YAML, bounded in size, depth and number of values.

Told apart by the name's ending; without one of `.json`, `.yaml`, `.yml`, a text that begins with `{` is JSON.
No message repeats a piece of the text other than names: it may hold a secret.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from app.errors import ConfigurationError
from app.protocols.printable import printable

MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 20
"""Levels of nesting; the model needs five."""
MAX_VALUES = 50_000
"""Values in the whole document, a YAML alias counted each time it is used."""


def read_text(path: str) -> str:
    """The file's text.

    Raises:
        ConfigurationError: it can't be read, is above 1 MiB, or is not UTF-8.
    """
    shown = printable(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise ConfigurationError([f"the file can't be read: {reason}"], source=shown) from None
    except ValueError:
        raise ConfigurationError(["that is no name of a file"], source=shown) from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(["the file is above 1 MiB"], source=shown)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(["the file is not UTF-8 text"], source=shown) from None


def parse_document(text: str, name: str) -> dict[str, object]:
    """The document's top-level object.

    Args:
        text: the file's text.
        name: the file's name, whose ending tells JSON from YAML.

    Raises:
        ConfigurationError: not JSON or YAML, a key twice in one object, too deep, or no object at all.
    """
    try:
        value = _parse_json(text) if _is_json(text, name) else _parse_yaml(text)
    except ValueError as error:
        raise ConfigurationError([str(error)], source=printable(name)) from None
    except RecursionError:
        raise ConfigurationError([f"nested deeper than {MAX_DEPTH} levels"], source=printable(name)) from None
    if value is None:
        raise ConfigurationError(["the file is empty"], source=printable(name))
    if not isinstance(value, dict):
        raise ConfigurationError([".: must be an object"], source=printable(name))
    return value


def show_key(key: object) -> str:
    """A key as it may be shown: escaped and cut, and not at all if it could be an address with a password."""
    text = str(key)
    return "?" if "://" in text or "@" in text else printable(text, 60)


def _is_json(text: str, name: str) -> bool:
    ending = os.path.splitext(name)[1].lower()
    if ending in (".yaml", ".yml"):
        return False
    return ending == ".json" or text.lstrip().startswith("{")


def _parse_json(text: str) -> object:
    try:
        value: object = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    _check_bounds(value)
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in value if names.count(key) > 1)
        raise ValueError(f"the key {show_key(twice)} is there twice in one object")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"not JSON: {name} is no number")


def _check_bounds(value: object) -> None:
    """Depth and number of values, without recursion."""
    pending: list[tuple[object, int]] = [(value, 1)]
    count = 0
    while pending:
        current, depth = pending.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        if count > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        if isinstance(current, dict):
            pending.extend((child, depth + 1) for child in current.values())
        elif isinstance(current, list):
            pending.extend((child, depth + 1) for child in current)


def _parse_yaml(text: str) -> object:
    from app.config.yaml_document import parse_yaml

    return parse_yaml(text, max_depth=MAX_DEPTH, max_values=MAX_VALUES)
