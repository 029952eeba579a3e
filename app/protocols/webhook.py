"""Webhooks: a body made of a template, and the signature that goes with it.

A template is JSON text in which `{{name}}` stands for a value of the event. Nothing in it is run: names come
from a closed set, a value is inserted escaped, so that it can't leave the string that it stands in.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping

from app.errors import InvalidInput

SIGNATURE_HEADER = "X-Vmscaler-Signature"
EVENT_HEADER = "X-Vmscaler-Event"
"""The event's kind."""
DELIVERY_HEADER = "X-Vmscaler-Delivery"
"""The event's id: the same at each try."""

TOLERANCE_S = 300
"""A receiver should refuse an older signature, or one so far in the future."""

_PLACE = re.compile(r"\{\{([^{}]*)\}\}")

Value = str | int | None
"""What a template may insert; None becomes nothing."""


def render(template: str, values: Mapping[str, Value]) -> bytes:
    """The body; names are those that `check_template` has let through."""
    return _PLACE.sub(lambda match: _escaped(values.get(match[1].strip())), template).encode()


def check_template(template: str, names: Mapping[str, Value]) -> None:
    """Refuse a template that can't make JSON of every event.

    Args:
        names: what may be inserted, with values to try it out.

    Raises:
        InvalidInput: an unknown name, or no JSON; `where` is empty.
    """
    for match in _PLACE.finditer(template):
        if match[1].strip() not in names:
            raise InvalidInput("", f"unknown name in {{{{ }}}}; known are {', '.join(sorted(names))}")
    # Values that need escaping, and none at all, which for a number is 0: both must leave it JSON.
    hostile = {name: 2048 if isinstance(value, int) else 'a"\n\\' for name, value in names.items()}
    absent = {name: 0 if isinstance(value, int) else None for name, value in names.items()}
    for values in (names, hostile, absent):
        try:
            json.loads(render(template, values), parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise InvalidInput("", "is not JSON once the values are in it") from None


def _no_number(text: str) -> None:
    """NaN and Infinity, which Python's reader takes and JSON does not know."""
    raise ValueError(text)


def sign(secret: str, body: bytes, at_s: int) -> str:
    """The header's value: `t=<Unix seconds>,v1=<hex of HMAC-SHA256 over "<t>.<body>">`."""
    return f"t={at_s},v1={_digest(secret, body, at_s)}"


def is_signed(secret: str, body: bytes, header: str, now_s: int) -> bool:
    """What a receiver checks: the signature, and that it is not an old one played again."""
    match = re.fullmatch(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", header)
    if match is None or abs(now_s - int(match[1])) > TOLERANCE_S:
        return False
    return hmac.compare_digest(match[2], _digest(secret, body, int(match[1])))


def _digest(secret: str, body: bytes, at_s: int) -> str:
    return hmac.digest(secret.encode(), f"{at_s}.".encode() + body, "sha256").hex()


def _escaped(value: Value) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else json.dumps(value)[1:-1]
