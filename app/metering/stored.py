"""Meters as they are stored: a short JSON list under their identity, versioned."""

from __future__ import annotations

import json

from app.errors import InvalidInput, NewerVersion
from app.metering.meter import Meter, MeterId, Told

VERSION = 1

_LONGEST = 100_000
"""Bytes; a meter has some 150."""


def id_field(identity: MeterId) -> str:
    """The identity as a field's name."""
    return json.dumps(identity, ensure_ascii=False, separators=(",", ":"))


def parse_id_field(field: str) -> MeterId:
    """The other way round.

    Raises:
        InvalidInput: not one of ours.
    """
    try:
        parts = json.loads(field)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        raise InvalidInput("billing", "a field that is no meter's")
    return MeterId(*parts)


def encode_meter(meter: Meter) -> bytes:
    """`[1, at, noted, cpu, active, {sink: [at, cpu, active]}]`."""
    noted = "null" if meter.noted is None else meter.noted
    told = json.dumps(dict(meter.told), separators=(",", ":"))
    return f"[{VERSION},{meter.at_ms},{noted},{meter.cpu},{meter.active},{told}]".encode()


def decode_meter(raw: bytes, identity: MeterId) -> Meter:
    """A stored meter.

    Raises:
        NewerVersion: leave it as it is.
        InvalidInput: not one that was ever written.
    """
    where = f"meter of {identity.key}"
    try:
        parts = json.loads(raw) if len(raw) <= _LONGEST else None
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or not parts or not _is_count(parts[0]):
        raise InvalidInput(where, "not a meter")
    if parts[0] > VERSION:
        raise NewerVersion(where, f"version {parts[0]}, newer than {VERSION}")
    match parts[1:]:
        case [at_ms, noted, cpu, active, dict() as told]:
            is_whole = all(map(_is_count, (at_ms, cpu, active))) and (noted is None or _is_count(noted))
            if is_whole and all(_is_mark(mark) for mark in told.values()):
                return Meter(at_ms, noted, cpu, active, {sink: Told(*mark) for sink, mark in told.items()})
    raise InvalidInput(where, "not a meter")


def _is_mark(mark: object) -> bool:
    return isinstance(mark, list) and len(mark) == 3 and all(map(_is_count, mark))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
