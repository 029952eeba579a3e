"""Traces out of CSV: `timestamp,value` lines, in bounded memory; every mistake is told as `name:line`.

A timestamp is ISO 8601 (`2014-02-14 14:27:00`, with or without a zone; UTC without one) or Unix seconds; a
value is per cent. The first line may be a header. Nothing here opens a file.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import BinaryIO

from app.errors import InvalidInput
from app.protocols.printable import printable
from app.simulation.trace import Trace

MAX_LINE_BYTES = 1_000
MAX_SAMPLES = 1_000_000
"""Ours: nine years of five-minute samples."""
MAX_VALUE = 1e6
"""Per cent; ten thousand times the machine is no utilisation any more."""
_MAX_SECONDS = 1e11
"""Unix seconds beyond the year 5000: a trace in milliseconds, most likely."""


def read_trace(stream: BinaryIO, name: str) -> Trace:
    """The trace in a stream. Of samples with the same time the last one counts.

    Raises:
        InvalidInput: at the first line that is wrong, or if there is no sample.
    """
    times: list[int] = []
    values: list[float] = []
    number = 0
    while True:
        number += 1
        where = f"{name}:{number}"
        line = _next_line(stream, where)
        if line is None:
            break
        if not line or (number == 1 and _is_header(line)):
            continue
        time_ms, value = _sample(line, where)
        if times and time_ms < times[-1]:
            raise InvalidInput(where, "the time goes back: it is before the one above it")
        if times and time_ms == times[-1]:
            values[-1] = value
            continue
        if len(times) >= MAX_SAMPLES:
            raise InvalidInput(where, f"more than {MAX_SAMPLES} samples")
        times.append(time_ms)
        values.append(value)
    if not times:
        raise InvalidInput(name, "has no sample: lines of timestamp,value are expected")
    return Trace(name, tuple(times), tuple(values))


def _next_line(stream: BinaryIO, where: str) -> str | None:
    """The next line without white space around it; None at the end."""
    try:
        raw = stream.readline(MAX_LINE_BYTES + 1)
    except OSError as err:
        raise InvalidInput(where, f"can't be read: {err.strerror or err}") from err
    if not raw:
        return None
    if len(raw) > MAX_LINE_BYTES:
        raise InvalidInput(where, f"is longer than {MAX_LINE_BYTES} bytes: no line of a CSV trace")
    try:
        return raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as err:
        raise InvalidInput(where, "is not text in UTF-8") from err


def _is_header(line: str) -> bool:
    """Two names, such as `timestamp,value`."""
    fields = [field.strip().strip('"') for field in line.split(",")]
    return len(fields) == 2 and all(field[:1].isalpha() for field in fields) and _is_no_number(fields[1])


def _plain_float(text: str) -> float:
    """A number as CSV files have them; Python would take `1_000` and the digits of other scripts too."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def _is_no_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def _sample(line: str, where: str) -> tuple[int, float]:
    fields = [field.strip().strip('"') for field in line.split(",")]
    if len(fields) != 2:
        raise InvalidInput(where, f"has {len(fields)} fields, not the two of timestamp,value")
    try:
        value = _plain_float(fields[1])
    except ValueError:
        raise InvalidInput(where, f"the value {printable(fields[1], 40)!r} is not a number") from None
    if not math.isfinite(value):
        raise InvalidInput(where, f"the value {printable(fields[1], 40)} is not finite")
    if value < 0:
        raise InvalidInput(where, "the value is negative")
    if value > MAX_VALUE:
        raise InvalidInput(where, f"the value is above {MAX_VALUE:.0f} per cent")
    return _time_ms(fields[0], where), value


def _time_ms(text: str, where: str) -> int:
    try:
        seconds = _plain_float(text) if text.replace(".", "", 1).isdecimal() else _iso_seconds(text)
    except (ValueError, OverflowError):
        shown = printable(text, 40)
        raise InvalidInput(where, f"{shown!r} is no time such as 2014-02-14 14:27:00") from None
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidInput(where, "the time must lie between 1970 and 5138 (ISO 8601 or Unix seconds)")
    return round(seconds * 1000)


def _iso_seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
