"""Axes of a picture: where values go, and round numbers to write beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10

_STEPS_S = (10, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
_MOST_TIMES = 15
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Tick:
    """A value at which an axis has a mark, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """An axis: values from `low` to `high` lie between the pixels `begin` and `end`."""

    low: float
    high: float
    begin: float
    end: float

    def place(self, value: float, shift: float = 0) -> str:
        """The pixel of a value, as text with at most two decimals."""
        share = (value - self.low) / (self.high - self.low)
        return f"{self.begin + (self.end - self.begin) * share + shift:.2f}".rstrip("0").rstrip(".")


def value_ticks(peak: float) -> list[Tick]:
    """Four to ten round values from 0 to about `peak` (above 0)."""
    raw = peak / 5
    power = 10.0 ** floor(log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return [Tick(number * step, f"{number * step:g}") for number in range(int(peak / step + 1e-9) + 1)]


def time_ticks(duration_s: float) -> list[Tick]:
    """At most fifteen round times from the beginning on: `day 3`, `6 h`, `15 min`, `30 s`."""
    step = next((step for step in _STEPS_S if duration_s / step <= _MOST_TIMES), None)
    if step is None:
        step = -(-int(duration_s) // (_MOST_TIMES * _DAY_S)) * _DAY_S
    return [Tick(at, _time_text(at, step)) for at in range(0, int(duration_s) + 1, step)]


def _time_text(at: int, step: int) -> str:
    if at == 0:
        return "0"
    if step >= _DAY_S:
        return f"day {at // _DAY_S}"
    if step >= 3_600:
        return f"{at // 3_600} h"
    return f"{at // 60} min" if step >= 60 else f"{at} s"
