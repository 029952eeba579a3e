"""The metrics page of a VM: load and memory out of Prometheus text (`spec/agent.md`, "Metrics of a VM").

A page has thousands of lines and four of them matter, so it is searched for the names (`bytes.find`)
instead of being parsed: 100 KB take some 50 µs, a full parser takes 25 ms. A name counts at the start of a
line only (blanks may stand before it), and only if it ends there: not in a comment, not in a label, not as
the beginning of a longer name. The first series of a name counts, whatever its labels.

A page that was cut off must never be believed: a line that does not end in a line feed is an error, for
`0.1` may have been `0.15`, or `1e1`. The page is the guest's, so untrusted: work is bounded by its length.
"""

from __future__ import annotations

import math
import re

from app.core.model import Metrics
from app.errors import InvalidInput

MAX_PAGE_BYTES = 1024 * 1024
"""Longest page that is read (`spec/agent.md`)."""

KERNEL_BYTES = 100 * 1024 * 1024
"""Memory that the kernel keeps for itself and does not count in its total (`spec/agent.md`)."""

MAX_LOOKALIKES = 1000
"""Lines that hold a name without being its series; a real page has three per name (HELP, TYPE, load15)."""

_NODE_MEMORY = (b"memory_MemTotal_bytes", b"memory_MemAvailable_bytes")
_VECTOR_MEMORY = (b"memory_total_bytes", b"memory_available_bytes")

# Possessive: a line that does not fit fails in one pass, however long it is.
_REST_OF_LINE = re.compile(
    rb"""[ \t]*+
    (?: \{ (?: [^"{}\n]++ | "(?: [^"\\\n]++ | \\[^\n] )*+" )*+ \} [ \t]*+ )?+
    (?P<value> [^ \t\r\n{}]{1,64}+ )
    (?: [ \t]++ [+-]?[0-9]{1,20}+ (?: \.[0-9]{1,9}+ )?+ )?+
    [ \t\r]*+ \n""",
    re.VERBOSE,
)
_NUMBER = re.compile(
    rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|[+-]?[iI]nf(?:inity)?|[nN]a[nN]"
)
_AFTER_NAME = b" \t{"
_BLANKS = b" \t"


def read_sample(page: bytes, prefix: str) -> Metrics:
    """The sample that a page holds.

    Memory is total - available + 100 MiB; its names are node_exporter's or vector's, under either prefix.
    Where a page has both pairs, those that belong to the prefix count.

    Args:
        page: the whole body, in Prometheus text.
        prefix: `node_` or `host_`, what the names of the load averages begin with.

    Raises:
        InvalidInput: a value is missing, cut off, no number, not finite or negative, available is above
            total, or the page is too long; `where` is the metric's name. Keep the last good sample.
    """
    if len(page) > MAX_PAGE_BYTES:
        raise InvalidInput("page", f"over {MAX_PAGE_BYTES} bytes")
    start = prefix.encode()
    load1 = _required(page, start + b"load1")
    load5 = _required(page, start + b"load5")
    total, available, name = _memory(page, start)
    if available > total:
        raise InvalidInput(name, f"available memory ({available:.0f}) is above the total ({total:.0f})")
    return Metrics(load1=load1, load5=load5, mem_bytes=total - available + KERNEL_BYTES)


def _memory(page: bytes, prefix: bytes) -> tuple[float, float, str]:
    """Total and available bytes, and the latter's name; the prefix' own pair of names is tried first."""
    pairs = (_VECTOR_MEMORY, _NODE_MEMORY) if prefix == b"host_" else (_NODE_MEMORY, _VECTOR_MEMORY)
    missing = ""
    for total_name, available_name in pairs:
        total_at = _find_series(page, prefix + total_name)
        available_at = _find_series(page, prefix + available_name)
        if total_at is not None and available_at is not None:
            name = (prefix + available_name).decode()
            total = _value(page, prefix + total_name, total_at)
            if total == 0:
                raise InvalidInput((prefix + total_name).decode(), "is zero")
            return (
                total,
                _value(page, prefix + available_name, available_at),
                name,
            )
        if total_at is not None or available_at is not None or not missing:
            missing = (prefix + (total_name if total_at is None else available_name)).decode()
    raise InvalidInput(missing, "missing")


def _required(page: bytes, name: bytes) -> float:
    """The value of a series that must be there."""
    at = _find_series(page, name)
    if at is None:
        raise InvalidInput(name.decode(), "missing")
    return _value(page, name, at)


def _find_series(page: bytes, name: bytes) -> int | None:
    """Where the first series of that name goes on after the name; None if there is none."""
    at = page.find(name)
    for _ in range(MAX_LOOKALIKES):
        if at < 0:
            return None
        end = at + len(name)
        if page[end : end + 1] in _AFTER_NAME and end < len(page):
            line = page.rfind(b"\n", 0, at) + 1
            if line == at or not page[line:at].strip(_BLANKS):
                return end
        # A line holds one series at most: the rest of this one is a comment, a label or a longer name.
        line_end = page.find(b"\n", end)
        at = page.find(name, line_end) if line_end >= 0 else -1
    raise InvalidInput(name.decode(), f"more than {MAX_LOOKALIKES} lines look like it")


def _value(page: bytes, name: bytes, at: int) -> float:
    """The value of the series whose name ends at `at`: finite, not negative."""
    found = _REST_OF_LINE.match(page, at)
    if found is None:
        is_cut = page.find(b"\n", at) < 0
        raise InvalidInput(
            name.decode(), "cut off: the page ends within its line" if is_cut else "malformed line"
        )
    text = found["value"]
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInput(name.decode(), "its value is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise InvalidInput(name.decode(), f"its value is not finite ({text.decode()})")
    if value < 0:
        raise InvalidInput(name.decode(), f"its value is negative ({text.decode()})")
    return abs(value)
