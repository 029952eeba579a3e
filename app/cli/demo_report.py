"""What the demo has achieved: resizes that were really completed, and the verdict at its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.core.model import Mode
from app.protocols.printable import printable
from app.services.fleet_view import FleetView, VmRow
from app.services.process_keeping import ChildState
from app.services.wording import count_text, size_text, span_text

COMPLETED = ("upscales", "downscales")
"""The counters of a VM that grow when a resize was seen in its observed size."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Resizes of one VM completed between two looks; `kind` is one of `COMPLETED`, `count` at least 1."""

    row: VmRow
    kind: str
    count: int


@dataclass(slots=True)
class Tally:
    """Adds up what the VMs' counters gained, so that a VM that is deleted takes nothing away.

    Attributes:
        completed: resizes completed, by kind.
        observed_polls: good samples of observed VMs.
        first_upscale_s: seconds from the demo's start to the look that showed the first upscale.
    """

    completed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COMPLETED, 0))
    observed_polls: int = 0
    first_upscale_s: float | None = None
    vms: int = 0
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, view: FleetView, elapsed_s: float) -> tuple[Completed, ...]:
        """Count what is new in a view; returns the resizes completed since the last one."""
        gained: list[Completed] = []
        self.vms = max(self.vms, len(view.vms))
        for row in view.vms:
            before = self._seen.get(row.key, {})
            self._seen[row.key] = dict(row.counters)
            for kind in COMPLETED:
                count = _gain(before, row, kind)
                if count:
                    self.completed[kind] += count
                    gained.append(Completed(row, kind, count))
            if row.mode is Mode.OBSERVE and row.metrics is not None:
                self.observed_polls += max(
                    0, _gain(before, row, "polls") - _gain(before, row, "poll_failures")
                )
        if self.completed["upscales"] and self.first_upscale_s is None:
            self.first_upscale_s = elapsed_s
        return tuple(gained)

    def missing(self) -> tuple[str, ...]:
        """What a demo must have shown and hasn't, a phrase each; empty when all is there."""
        wanted = {
            "no upscale was completed": self.completed["upscales"],
            "no downscale was completed": self.completed["downscales"],
            "this machine was never polled as an observed VM": self.observed_polls,
        }
        return tuple(text for text, count in wanted.items() if not count)


def completed_line(done: Completed, elapsed_s: float) -> str:
    """One completed resize in one line: when, what, from, to, why."""
    row = done.row
    kind = done.kind.removesuffix("s")
    size = size_text(row.real_size, row.slot_bytes)
    why = printable(row.why)
    last = row.last
    if last is not None and last.kind == kind and last.to_size is not None:
        size = size_text(last.to_size.amount(), row.slot_bytes)
        if last.from_size is not None:
            size = f"{size_text(last.from_size.amount(), row.slot_bytes)} -> {size}"
        why = printable(last.why) or why
    times = f" (x{done.count})" if done.count > 1 else ""
    return f"{elapsed_s:6.1f}s {kind:<9} {printable(row.key)}{times}: {size}: {why}"


def progress_line(tally: Tally, view: FleetView | None, absence: str, elapsed_s: float) -> str:
    """The state of things in one line, for an output that is no terminal."""
    done = f"{tally.completed['upscales']} up, {tally.completed['downscales']} down"
    if view is None:
        return f"{elapsed_s:6.1f}s {done}; {printable(absence)}"
    held = sum(row.holder is not None for row in view.leases)
    counters = view.counters
    vms, workers = count_text(len(view.vms), "VM"), count_text(len(view.workers), "worker")
    return (
        f"{elapsed_s:6.1f}s {done}; {vms}, {workers},"
        f" {held}/{len(view.leases)} buckets, {counters.get('polls', 0)} polls,"
        f" {counters.get('denied', 0)} denied, {counters.get('failed', 0)} failed,"
        f" {counters.get('not_applied', 0)} not applied"
    )


def summary_lines(tally: Tally, children: Iterable[ChildState], elapsed_s: float) -> tuple[str, ...]:
    """What is printed at the end: counts, restarts, what was missing."""
    first = "none" if tally.first_upscale_s is None else f"after {span_text(tally.first_upscale_s * 1000)}"
    lines = [
        f"demo: {span_text(elapsed_s * 1000)}, {count_text(tally.vms, 'VM')}",
        f"  upscales completed    {tally.completed['upscales']} (first: {first})",
        f"  downscales completed  {tally.completed['downscales']}",
        f"  this machine          {count_text(tally.observed_polls, 'sample')}, observed only",
        f"  restarts              {_restarts(tuple(children))}",
    ]
    missing = tally.missing()
    lines.append("  " + ("missing: " + "; ".join(missing) if missing else "nothing is missing"))
    return tuple(lines)


def _restarts(children: Sequence[ChildState]) -> str:
    restarted = [
        f"{child.name} {child.restarts} ({printable(child.last_end, 60)})"
        for child in children
        if child.restarts
    ]
    return ", ".join(restarted) or "none"


def _gain(before: dict[str, int], row: VmRow, name: str) -> int:
    """How much a counter grew; one that went back (the VM was made anew) counts from zero."""
    now, then = row.counters.get(name, 0), before.get(name, 0)
    return now - then if now >= then else now
