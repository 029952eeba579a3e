"""Traces: what belongs together from a tick to the resize that it led to.

Off unless `use_tracer` was called, and then next to free. The tracer is the process' own, as its log is:
a span begins wherever work begins, and no service is handed one only for that. A span is carried to another
process or another moment as text (`current`, W3C `traceparent`); "" is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Fact = str | int
HEADER = "traceparent"
"""The name under which a span travels in a task's headers."""


class Tracer(Protocol):
    """Makes spans and keeps the current one, for each greenlet its own."""

    def span(self, name: str, parent: str, facts: Mapping[str, Fact]) -> AbstractContextManager[object]:
        """A span as long as the block, the current one meanwhile; an exception marks it as failed.

        Args:
            parent: what `current` gave elsewhere; "": the current span here, or none: a new trace.
        """
        ...

    def past(
        self, name: str, parent: str, times_ms: tuple[int, int], facts: Mapping[str, Fact], problem: str
    ) -> None:
        """A span that is over, from and to in Unix milliseconds; `problem` is "" where all went well."""
        ...

    def current(self) -> str:
        """The current span as text; "" without one. One that is not sampled is carried on as such."""
        ...

    def close(self) -> None:
        """Send what there is, within some seconds; nothing is made afterwards."""
        ...


_tracers: list[Tracer] = []
"""None or one; set as the process starts."""


def use_tracer(tracer: Tracer | None) -> None:
    """Make spans from now on, or no more; the one before is closed."""
    before = _tracers[:]
    _tracers[:] = [] if tracer is None else [tracer]
    for old in before:
        old.close()


def span(name: str, *, parent: str = "", **facts: Fact) -> AbstractContextManager[object]:
    """See `Tracer.span`."""
    return _tracers[0].span(name, parent, facts) if _tracers else nullcontext()


def step(name: str, **facts: Fact) -> AbstractContextManager[object]:
    """A span within the current one; nothing where there is none, such as for what changes no size."""
    return span(name, parent="", **facts) if current_span() else nullcontext()


def past_span(name: str, *, parent: str, times_ms: tuple[int, int], problem: str = "", **facts: Fact) -> None:
    """See `Tracer.past`; nothing where there is no parent, for what it belongs to was not traced."""
    if _tracers and parent:
        _tracers[0].past(name, parent, times_ms, facts, problem)


def current_span() -> str:
    """See `Tracer.current`."""
    return _tracers[0].current() if _tracers else ""


def trace_id() -> str:
    """What all spans of the current trace have in common, for log lines; "" without one."""
    parts = current_span().split("-")
    return parts[1] if len(parts) > 1 else ""


def trace_headers() -> dict[str, str]:
    """Headers of a task that goes on in the current span."""
    text = current_span()
    return {HEADER: text} if text else {}
