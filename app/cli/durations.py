"""Durations as an operator types them: `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

from app.errors import UsageError
from app.protocols.printable import printable

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_WHOLE = re.compile(r"(?:[0-9]+[dhms])+", re.ASCII)
_PART = re.compile(r"([0-9]+)([dhms])", re.ASCII)
_LONGEST_MS = 366 * 86_400_000
"""A year; beyond it a typing mistake is likelier than a wish."""


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration: numbers with a unit each (d, h, m, s), largest unit first, each once.

    Raises:
        UsageError: not a duration, zero, or longer than 366 days; the text says which and gives an example.
    """
    stripped = text.strip().lower()
    if not _WHOLE.fullmatch(stripped) or len(stripped) > 40:
        hint = " (a unit is missing)" if stripped.isascii() and stripped.isdigit() else ""
        raise UsageError(f"{printable(text, 40)!r} is not a duration{hint}: write 90s, 10m, 1h30m or 2d")
    parts = _PART.findall(stripped)
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key="dhms".index):
        raise UsageError(f"{printable(text, 40)!r}: largest unit first, each once, such as 1d2h30m")
    total = sum(int(number) * _UNITS_MS[unit] for number, unit in parts)
    if total == 0:
        raise UsageError(f"{printable(text, 40)!r}: the duration must be above zero")
    if total > _LONGEST_MS:
        raise UsageError(f"{printable(text, 40)!r}: at most 366d")
    return total
