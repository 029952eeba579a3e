"""Kubernetes quantities: `2`, `"250m"`, `"1.5"`, `"1e3"`, `"1Ki"`; exact, in integers.

Source of the rules: Kubernetes' `resource.Quantity`. A quantity is a decimal number with a binary suffix
(Ki … Ei), a decimal one (n, u, m, k … E) or a decimal exponent. What does not come out even is rounded up, as
Kubernetes' `MilliValue` and `Value` do: a size is never understated. Negative amounts make no size and are
refused, and so is anything above 2^63-1, which Kubernetes would silently cut.
"""

from __future__ import annotations

import re

from app.errors import InvalidInput

MAX_LENGTH = 64
"""Characters; the longest spelling that means anything has about 30."""

MAX_EXPONENT = 64
"""Power of ten, either sign; beyond it a value is zero or out of range anyway."""

MAX_VALUE = 2**63 - 1
"""The greatest amount that Kubernetes can hold."""

_PATTERN = re.compile(
    r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:([eE][+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_milli_cpu(value: object, *, where: str = "cpu") -> int:
    """Milli-CPUs of a quantity as it stands in JSON (a number or a string), rounded up to a whole one.

    Args:
        value: what the JSON reader gave: int, float or str.
        where: the field's path, for the error.

    Raises:
        InvalidInput: not a quantity, negative, or out of range.
    """
    return _scaled(value, 1000, where)


def parse_bytes(value: object, *, where: str = "memory") -> int:
    """Bytes of a quantity as it stands in JSON (a number or a string), rounded up to a whole one.

    Args:
        value: what the JSON reader gave: int, float or str.
        where: the field's path, for the error.

    Raises:
        InvalidInput: not a quantity, negative, or out of range.
    """
    return _scaled(value, 1, where)


def format_milli_cpu(milli: int) -> int | str:
    """The JSON value for an amount of CPU: a number of CPUs if integral (`2`), else a string (`"250m"`).

    A JSON Patch `test` must not use it: `1`, `"1"` and `"1000m"` differ there.
    """
    return milli // 1000 if milli % 1000 == 0 else f"{milli}m"


def _scaled(value: object, per_unit: int, where: str) -> int:
    """`value` times `per_unit`, rounded up."""
    numerator, denominator = _ratio(_text(value, where), where)
    if numerator > MAX_VALUE * denominator:
        raise InvalidInput(where, "the quantity is above 2^63-1")
    return -(-numerator * per_unit // denominator)


def _text(value: object, where: str) -> str:
    """The quantity's spelling; a float's shortest one, so that `1.5` is exactly that."""
    match value:
        case bool():
            raise InvalidInput(where, "expected a quantity, found a boolean")
        case str():
            return value
        case int():
            if not 0 <= value <= MAX_VALUE:
                raise InvalidInput(where, "the quantity is negative or above 2^63-1")
            return str(value)
        case float():
            return repr(value)
        case _:
            raise InvalidInput(where, f"expected a quantity, found {type(value).__name__}")


def _ratio(text: str, where: str) -> tuple[int, int]:
    """The exact amount as a fraction of non-negative integers."""
    found = _PATTERN.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if found is None:
        raise InvalidInput(where, "not a quantity such as 2, 250m, 1.5, 1e3 or 1Gi")
    sign, whole, tail, bare_tail, exponent, suffix = found.groups()
    fraction = tail or bare_tail or ""
    digits = int((whole or "") + fraction)
    if sign == "-" and digits:
        raise InvalidInput(where, "the quantity is negative")
    if exponent:
        power = int(exponent[1:])
        if abs(power) > MAX_EXPONENT:
            raise InvalidInput(where, f"the quantity's exponent is beyond {MAX_EXPONENT}")
    else:
        power = _DECIMAL.get(suffix, 0)
    numerator = digits << _BINARY.get(suffix or "", 0)
    power -= len(fraction)
    return (numerator * 10**power, 1) if power >= 0 else (numerator, 10**-power)
