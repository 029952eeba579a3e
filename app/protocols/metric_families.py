"""What a process counts of itself, for Prometheus: counters, histograms and readings.

A family is the process' own, as its log and its tracer are, and declared once (`app.ports.agent_metrics`,
`app.ports.own_metrics`, `app.protocols.guest_metrics`). Adding to one costs about a dict access and never
fails, waits or logs: counting must harm nobody. Labels have closed sets of values; what is in none of them
is counted as `other`, so that no peer can make series, and no error's text becomes a label.

Written by one thread; another may read meanwhile, and sees numbers of a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import product

from app.protocols.exposition import head_text, labels_text, number_text

OTHER = "other"
"""Stands for any value of a label that is in no closed set."""

SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds of histograms of durations."""


class Family:
    """A name, its labels and its samples.

    Args:
        labels: each label's closed set of values.

    Attributes:
        kind: counter, gauge or histogram, as Prometheus calls it.
    """

    def __init__(
        self, name: str, kind: str, text: str, labels: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.text = text
        self.labels = dict(labels or {})
        self._head = head_text(name, kind, text)

    def known(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """These values of our labels, with `other` for those that are in no closed set."""
        sets = self.labels.values()
        return tuple(
            value if value in closed else OTHER for value, closed in zip(values, sets, strict=False)
        ) + (OTHER,) * (len(self.labels) - len(values))

    def all_values(self) -> Iterator[tuple[str, ...]]:
        """Every combination of the closed sets; one empty tuple without labels."""
        yield from product(*self.labels.values())

    def text_now(self) -> str:
        """The family as it stands on a page; "" while it has no samples."""
        lines = "".join(self._lines())
        return self._head + lines if lines else ""

    def _lines(self) -> Iterator[str]:
        """A sample each; a family of another kind has none of its own."""
        return iter(())

    def _told(self, values: tuple[str, ...], *more: tuple[str, str]) -> str:
        return labels_text([*zip(self.labels, values, strict=True), *more])


class Counter(Family):
    """Goes up only; all its series are there from the start, at 0."""

    def __init__(self, name: str, text: str, labels: Mapping[str, tuple[str, ...]] | None = None) -> None:
        super().__init__(name, "counter", text, labels)
        self._counts: dict[tuple[str, ...], float] = dict.fromkeys(self.all_values(), 0)

    def add(self, *values: str, by: float = 1) -> None:
        """Count one more, or `by` more, of these labels' values; less than nothing is nothing."""
        counts = self._counts
        if values not in counts:
            values = self.known(values)
        if by > 0:
            counts[values] = counts.get(values, 0) + by

    def value(self, *values: str) -> float:
        """The count now."""
        return self._counts.get(values, 0)

    def _lines(self) -> Iterator[str]:
        for values, count in sorted(self._counts.copy().items()):
            yield f"{self.name}{self._told(values)} {number_text(count)}\n"


class Histogram(Family):
    """How values are spread, such as durations in seconds; a series appears with its first value."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Mapping[str, tuple[str, ...]] | None = None,
        bounds: tuple[float, ...] = SECONDS,
    ) -> None:
        super().__init__(name, "histogram", text, labels)
        self.bounds = bounds
        self._series: dict[tuple[str, ...], list[float]] = {}

    def observe(self, value: float, *values: str) -> None:
        """One more value; one below 0, such as of a clock that went back, counts as 0."""
        series = self._series.get(values)
        if series is None:
            series = self._series.setdefault(self.known(values), [0.0] * (len(self.bounds) + 2))
        value = max(value, 0.0)
        series[bisect_left(self.bounds, value)] += 1
        series[-1] += value

    def count(self, *values: str) -> int:
        """How many values there were."""
        return int(sum(self._series.get(values, [0.0])[:-1]))

    def _lines(self) -> Iterator[str]:
        for values, series in sorted(self._series.copy().items()):
            *counts, total = series.copy()
            below = 0.0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                below += count
                told = self._told(values, ("le", number_text(bound)))
                yield f"{self.name}_bucket{told} {number_text(below)}\n"
            yield f"{self.name}_sum{self._told(values)} {number_text(total)}\n"
            yield f"{self.name}_count{self._told(values)} {number_text(below)}\n"


class Reading(Family):
    """What is read elsewhere when a page is made, or now and then: `set` replaces the earlier value.

    Args:
        kind: gauge, or counter for a count that is kept elsewhere.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Mapping[str, tuple[str, ...]] | None = None,
        *,
        kind: str = "gauge",
    ) -> None:
        super().__init__(name, kind, text, labels)
        self._values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, *values: str) -> None:
        """The value of one series from now on."""
        self._values[values if values in self._values else self.known(values)] = value

    def clear(self) -> None:
        """Nothing is known any more: the family leaves the page until it is set again."""
        self._values.clear()

    def value(self, *values: str) -> float | None:
        """What was set last; None: nothing is known."""
        return self._values.get(values)

    def _lines(self) -> Iterator[str]:
        for values, value in sorted(self._values.copy().items()):
            yield f"{self.name}{self._told(values)} {number_text(value)}\n"
