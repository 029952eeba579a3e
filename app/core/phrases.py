"""Amounts and times in an operator's words, for reasons and explanations.

Exact for integers of any size; no locale, no time zone but UTC.
"""

from __future__ import annotations

from app.core.resources import Resources

_GIB = 2**30
_DAY_S = 86_400


def cpu_text(milli: int) -> str:
    """CPUs, exact: 250 is `0.25`, 2000 is `2`."""
    sign, milli = ("-", -milli) if milli < 0 else ("", milli)
    return f"{sign}{milli // 1000}" + f".{milli % 1000:03d}".rstrip("0").rstrip(".")


def mem_text(count_bytes: int) -> str:
    """Bytes in GiB where that is exact to two decimals, else in MiB: `10 GiB`, `1.25 GiB`, `512 MiB`."""
    if count_bytes >= _GIB and count_bytes * 100 % _GIB == 0:
        return cpu_text(count_bytes * 1000 // _GIB) + " GiB"
    return cpu_text(count_bytes * 1000 // 2**20) + " MiB"


def size_text(size: Resources, slot_bytes: int) -> str:
    """CPU and memory: `2.5 CPU, 10 GiB`."""
    return f"{cpu_text(size.cpu)} CPU, {mem_text(size.mem * slot_bytes)}"


def amount_text(size: Resources) -> str:
    """CPU and memory where the size of a slot is not at hand: `2.5 CPU, 10 slots`."""
    return f"{cpu_text(size.cpu)} CPU, {size.mem} slots"


def number_text(value: float) -> str:
    """A number with two decimals, or three digits where those say nothing: `4.44`, `0.00312`, `1.2e+20`."""
    return f"{value:.2f}" if value == 0 or 0.01 <= value < 1e15 else f"{value:.3g}"


def units_text(count: int) -> str:
    """`1 unit`, `18 units`."""
    return "1 unit" if count == 1 else f"{count} units"


def span_text(milliseconds: int) -> str:
    """A duration in seconds, exact: `4.2 s`."""
    return f"{cpu_text(milliseconds)} s"


def until_text(at: int, now: int) -> str:
    """A moment to come: `until 14:05:10 UTC (4.2 s from now)`."""
    second = at // 1000 % _DAY_S
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"until {clock} UTC ({span_text(at - now)} from now)"
