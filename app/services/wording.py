"""Sizes, ages and moments in an operator's words: `2.5 CPU`, `3 GiB`, `3 s ago`, `until 14:05:10 UTC`.

UTC everywhere, as in the core's reasons and in logs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from app.core import phrases
from app.core.resources import Resources

_DAY_S = 86_400


def cpu_text(milli: int) -> str:
    """CPUs with as many decimals as there are, at least one: 250 is `0.25`, 2000 is `2.0`."""
    text = f"{milli / 1000:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def bytes_text(count: float) -> str:
    """Bytes in the largest binary unit that leaves a whole part: `3 GiB`, `1.5 GiB`, `512 MiB`."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f}".removesuffix(".0") + " GiB"
    if count >= 1 << 20:
        return f"{count / (1 << 20):.0f} MiB"
    return f"{count / (1 << 10):.0f} KiB"


def size_text(size: Resources, slot_bytes: int) -> str:
    """CPU and memory, spelt as in the core's reasons: `2.5 CPU, 10 GiB`."""
    return phrases.size_text(size, slot_bytes)


def span_text(milliseconds: float) -> str:
    """How long, in the unit that matters: `0.4 s`, `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    seconds = max(0.0, milliseconds / 1000)
    if seconds < 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 2 * 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 2 * _DAY_S:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // _DAY_S, "d", whole % _DAY_S // 3600, "h")


def ago_text(at_ms: int | None, now_ms: int) -> str:
    """How long ago: `3 s ago`; `never` for None; a moment ahead (clocks differ) is `just now`."""
    if at_ms is None:
        return "never"
    return "just now" if at_ms >= now_ms else f"{span_text(now_ms - at_ms)} ago"


def moment_text(at_ms: int, now_ms: int) -> str:
    """Time of day in UTC, with the date if it is not today's: `14:05:10`."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        today = datetime.fromtimestamp(now_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return at.strftime("%H:%M:%S" if at.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def until_text(at_ms: int, now_ms: int) -> str:
    """A moment to come: `until 14:05:10 UTC (in 8 s)`; one that is past is `until now`."""
    if at_ms <= now_ms:
        return "until now"
    return f"until {moment_text(at_ms, now_ms)} UTC (in {span_text(at_ms - now_ms)})"


def count_text(count: int, singular: str, plural: str | None = None) -> str:
    """`1 VM`, `3 VMs`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" if small == 0 else f"{large} {large_unit} {small} {small_unit}"
