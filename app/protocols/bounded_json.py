"""JSON from peers, read within bounds: length, depth and number size; one kind of error for all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from app.errors import InvalidInput

MAX_DEPTH = 32
"""Objects and lists within each other; no message of ours needs more than four."""

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"?+', re.DOTALL)
_BRACKETS = re.compile(r"[\[{\]}]")


def read_json(
    data: bytes,
    *,
    max_bytes: int,
    where: str,
    make_object: Callable[[list[tuple[str, object]]], object] | None = None,
) -> object:
    """The value that `data` spells in UTF-8 JSON; blanks and line feeds around it are fine.

    Args:
        data: the whole text.
        max_bytes: longer ones are refused before they are looked at.
        where: what to call it in errors.
        make_object: what an object becomes, from its names and values in order; else a dict, in which the
            last value of a repeated name counts.

    Raises:
        InvalidInput: too long, too deep, not UTF-8, not JSON, or it holds NaN, Infinity or a number of
            thousands of digits.
    """
    if len(data) > max_bytes:
        raise InvalidInput(where, f"over {max_bytes} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as err:
        raise InvalidInput(where, "not UTF-8") from err
    if _depth_above(text, MAX_DEPTH):
        raise InvalidInput(where, f"nested more than {MAX_DEPTH} deep")
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=make_object)
    except ValueError as err:
        raise InvalidInput(where, "not JSON") from err
    return value


def read_json_object(data: bytes, *, max_bytes: int, where: str) -> dict[str, object]:
    """Like `read_json`, and what it spells must be an object.

    Raises:
        InvalidInput: as `read_json`, or no object.
    """
    value = read_json(data, max_bytes=max_bytes, where=where)
    if not isinstance(value, dict):
        raise InvalidInput(where, "not a JSON object")
    return value


def write_json(value: object) -> bytes:
    """Compact UTF-8; a lone surrogate in a text becomes a question mark."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _depth_above(text: str, limit: int) -> bool:
    """Whether brackets outside of strings nest deeper; counts them only where there are enough."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > limit:
            return True
    return False
