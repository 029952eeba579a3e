"""Reading fields of Kubernetes objects: what is missing or wrong is named by its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from app.errors import InvalidInput

MAX_TEXT = 253
"""Characters of a name, a label's value or an address."""

Object = Mapping[str, object]
"""A JSON object, of which nothing is known yet."""


def inner(value: Object, name: str) -> Object:
    """The object in a field; an empty one where there is none: what is missing in it is named by its path."""
    found = value.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def required(value: Object, name: str, where: str) -> object:
    """The field's value, of whatever type. Raises InvalidInput where it is missing or null."""
    if value.get(name) is None:
        raise InvalidInput(where, "is missing")
    return value[name]


def required_text(value: Object, name: str, where: str) -> str:
    """Like `optional_text`, and none is an error."""
    found = optional_text(value, name, where)
    if found is None:
        raise InvalidInput(where, "is missing")
    return found


def optional_text(value: Object, name: str, where: str) -> str | None:
    """The field's text, None for a missing, null or empty one. Raises InvalidInput for anything else."""
    found = value.get(name)
    if found is None or found == "":
        return None
    if not isinstance(found, str) or len(found) > MAX_TEXT or not found.isprintable():
        raise InvalidInput(where, f"must be printable text of at most {MAX_TEXT} characters")
    return found
