"""Spans of time that are left out of what must happen in time, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From `begin` to `end` on the machine's monotonic clock, and why it is left out."""

    begin: float
    end: float
    why: str = ""

    @property
    def length(self) -> float:
        return self.end - self.begin


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same time without overlaps, in order."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.begin):
        if joined and span.begin <= joined[-1].end:
            joined[-1] = Span(joined[-1].begin, max(joined[-1].end, span.end), joined[-1].why)
        else:
            joined.append(span)
    return tuple(joined)


def overlap(spans: Sequence[Span], begin: float, end: float) -> float:
    """Seconds of `begin` to `end` that lie in the spans, which must be merged."""
    return sum(max(0.0, min(span.end, end) - max(span.begin, begin)) for span in spans)
