"""Read objects of decoded JSON field by field, checked: wrong ones are told by their path.

For data from outside (event scripts, snapshots). What is not read is ignored, so that a later version may add
fields. Strict about types: `true` is no number, `1.0` no integer.
"""

from __future__ import annotations

import math
from typing import TypeVar

from app.errors import InvalidInput

_T = TypeVar("_T")

LARGEST_INTEGER = 2**63 - 1
"""Ours: what fits a signed 64-bit integer of any peer."""

LARGEST_SINGLE = 3.4028234663852886e38
"""The largest finite IEEE single, in which metrics are told."""


class Fields:
    """The fields of one object.

    Every reader raises `InvalidInput`, with the path of the field, if it is missing or of the wrong kind.

    Attributes:
        path: where the object is, such as `steps[3].event`; empty for the outermost.
    """

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, dict):
            raise InvalidInput(path or "value", f"must be an object, not {_kind(value)}")
        self._values: dict[str, object] = value
        self.path = path

    def at(self, name: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def value(self, name: str) -> object:
        """A field of any kind, null included."""
        if name not in self._values:
            raise InvalidInput(self.at(name), "is missing")
        return self._values[name]

    def inner(self, name: str) -> Fields:
        """A field that is an object."""
        return Fields(self.value(name), self.at(name))

    def optional(self, name: str) -> Fields | None:
        """A field that is an object, null or missing."""
        return self.inner(name) if self.has(name) else None

    def items(self, name: str) -> list[object]:
        """A field that is an array."""
        return self._of(name, list, "an array")

    def text(self, name: str) -> str:
        """A field that is a string."""
        return self._of(name, str, "a string")

    def boolean(self, name: str) -> bool:
        """A field that is true or false."""
        return self._of(name, bool, "true or false")

    def integer(self, name: str, *, lowest: int = 0) -> int:
        """A field that is an integer from `lowest` to 2⁶³ - 1."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(self.at(name), f"must be an integer, not {_kind(value)}")
        if not lowest <= value <= LARGEST_INTEGER:
            raise InvalidInput(self.at(name), f"must be between {lowest} and {LARGEST_INTEGER}")
        return value

    def number(self, name: str) -> float:
        """A field that is a finite number within single precision's range; an integer will do."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(self.at(name), f"must be a number, not {_kind(value)}")
        if not -LARGEST_SINGLE <= value <= LARGEST_SINGLE:
            raise InvalidInput(self.at(name), "must be a finite number in the range of single precision")
        return float(value)

    def positive(self, name: str) -> float:
        """The same, above zero."""
        value = self.number(name)
        if not value > 0 or math.isnan(value):
            raise InvalidInput(self.at(name), "must be above 0")
        return value

    def _of(self, name: str, kind: type[_T], called: str) -> _T:
        value = self.value(name)
        if not isinstance(value, kind):
            raise InvalidInput(self.at(name), f"must be {called}, not {_kind(value)}")
        return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return type(value).__name__
