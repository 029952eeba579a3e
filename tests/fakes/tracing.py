"""A tracer that keeps its spans, with ids that are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from app.ports.tracing import Fact


@dataclass(frozen=True)
class KeptSpan:
    name: str
    trace: int
    number: int
    parent: int
    facts: Mapping[str, Fact]
    problem: str = ""
    times_ms: tuple[int, int] = (0, 0)


class KeepingTracer:
    """See `Tracer`; `spans` are those that are over, in the order of their ends."""

    def __init__(self) -> None:
        self.spans: list[KeptSpan] = []
        self.is_closed = False
        self._count = 0
        self._current: ContextVar[str] = ContextVar("current_span", default="")

    @contextmanager
    def span(self, name: str, parent: str, facts: Mapping[str, Fact]) -> Iterator[None]:
        trace, number, before = self._begin(parent or self.current())
        token = self._current.set(f"00-{trace}-{number}-01")
        problem = ""
        try:
            yield
        except Exception as err:
            problem = str(err)
            raise
        finally:
            self._current.reset(token)
            self.spans.append(KeptSpan(name, trace, number, before, dict(facts), problem))

    def past(
        self, name: str, parent: str, times_ms: tuple[int, int], facts: Mapping[str, Fact], problem: str
    ) -> None:
        trace, number, before = self._begin(parent)
        self.spans.append(KeptSpan(name, trace, number, before, dict(facts), problem, times_ms))

    def current(self) -> str:
        return self._current.get()

    def close(self) -> None:
        self.is_closed = True

    def _begin(self, parent: str) -> tuple[int, int, int]:
        self._count += 1
        if not parent:
            return self._count, self._count, 0
        _, trace, before, _ = parent.split("-")
        return int(trace), self._count, int(before)

    def named(self, name: str) -> KeptSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found
