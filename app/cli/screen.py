"""The demo's live screen: counters, processes, addresses, and each VM with the reason of its last decision.

`draw` turns facts into exactly as many lines as the terminal has; no line is wider than it. Peers' text is
never read as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from app.cli.screen_rows import RowTexts, choose_rows, describe
from app.protocols.printable import printable
from app.services.fleet_view import FleetView
from app.services.process_keeping import ChildState
from app.services.wording import count_text, cpu_text, span_text

WIDE = 118
"""From this width on the reason stands in the VM's own line; below, in a line under it."""

_LEAST_ROWS = 3

_STYLES = {"up": "bold green", "down": "bold cyan", "fresh": "bold", "trouble": "bold red", "": ""}


@dataclass(frozen=True, slots=True)
class DemoFacts:
    """What the screen shows at one moment.

    Attributes:
        view: None while there is nothing to show; `absence` then says why.
        completed: resizes completed since the start, by kind.
        limit_s: how long the demo runs; None: until it is stopped.
    """

    view: FleetView | None
    absence: str
    children: Sequence[ChildState]
    completed: dict[str, int]
    flower_url: str
    logs: Path
    elapsed_s: float
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width: int
    is_right: bool = False


def draw(facts: DemoFacts, width: int, height: int) -> Text:
    """The whole screen: `height` lines at most, joined by line breaks."""
    head = _head(facts)
    if facts.view is None:
        lines = [*head, Text(), Text(printable(facts.absence), style="yellow")]
    else:
        lines = head + _table(facts.view, width, height - len(head))
    shown = lines[: max(1, height)]
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(shown)


def _head(facts: DemoFacts) -> list[Text]:
    lines = [_title(facts)]
    if facts.view is not None:
        lines.append(_workers(facts.view))
    lines.append(_children(facts.children))
    lines.append(Text.assemble(("Flower ", "dim"), facts.flower_url, ("   logs ", "dim"), str(facts.logs)))
    if facts.view is not None and facts.view.problems:
        first, *rest = facts.view.problems
        more = f" (and {len(rest)} more: vmscaler status)" if rest else ""
        lines.append(Text(printable(first.text) + more, style="yellow"))
    return lines


def _title(facts: DemoFacts) -> Text:
    time = span_text(facts.elapsed_s * 1000)
    if facts.limit_s is not None:
        time += f" of {span_text(facts.limit_s * 1000)}"
    line = Text.assemble(("vmscaler demo", "bold"), f"  {time}")
    line.append(f"  {count_text(facts.completed.get('upscales', 0), 'upscale')}", style="green")
    line.append(f", {count_text(facts.completed.get('downscales', 0), 'downscale')} done", style="cyan")
    if facts.view is not None:
        counters, totals = facts.view.counters, facts.view.totals
        line.append(
            f"  {counters.get('denied', 0)} denied, {counters.get('failed', 0)} failed,"
            f" {counters.get('not_applied', 0)} not applied"
            f"  {counters.get('polls', 0)} polls"
            f"  CPU {cpu_text(totals.cpu_use_m)} → {cpu_text(totals.cpu_desired_m)}"
        )
    return line


def _workers(view: FleetView) -> Text:
    held = sum(row.holder is not None for row in view.leases)
    line = Text.assemble(("leases ", "dim"), f"{held}/{len(view.leases)}")
    for worker in view.workers:
        line.append(f"  {printable(worker.name, 24)}", style="bold")
        line.append(f" {count_text(len(worker.buckets), 'bucket')}, {count_text(worker.vms, 'VM')}")
    if not view.workers:
        line.append("  no worker yet", style="yellow")
    return line


def _children(children: Sequence[ChildState]) -> Text:
    line = Text("processes", style="dim")
    for child in children:
        name = f"  {child.name}"
        if not child.is_running:
            line.append(f"{name} down ({printable(child.last_end, 60)})", style="bold red")
        elif child.restarts:
            line.append(f"{name} ↻{child.restarts}", style="not dim yellow")
        else:
            line.append(name, style="not dim green")
    return line


def _table(view: FleetView, width: int, room: int) -> list[Text]:
    if not view.vms:
        return [
            Text(),
            Text("no VM has been polled yet: workers take up their buckets first", style="yellow"),
        ]
    is_wide = width >= WIDE
    lines_each = 1 if is_wide else 2
    body = max(room - 1, _LEAST_ROWS)
    fitting = body // lines_each
    if len(view.vms) > fitting:
        fitting = (body - 1) // lines_each
    chosen = choose_rows(view.vms, fitting)
    texts = [describe(row, view.now_ms) for row in chosen]
    columns = _columns(texts, width)
    lines = [_line([column.title for column in columns], columns, "bold underline")]
    for text in texts:
        cells = [text.vm, text.bucket, text.worker, text.load, text.cpu, text.memory]
        style = _STYLES[text.trend]
        lines.append(_line([*cells, text.why] if is_wide else cells, columns, style))
        if not is_wide:
            lines.append(Text(f"    {text.why}", style="dim"))
    hidden = len(view.vms) - len(chosen)
    if hidden:
        lines.append(Text(f"… and {count_text(hidden, 'VM')} more: vmscaler vm list", style="dim"))
    return lines


def _columns(texts: Sequence[RowTexts], width: int) -> list[_Column]:
    """As wide as their content, within what the terminal leaves; the first one gives way."""
    columns = [
        _Column("bkt", _fit("bkt", [text.bucket for text in texts], 6), is_right=True),
        _Column("worker", _fit("worker", [text.worker for text in texts], 10)),
        _Column("load", _fit("load", [text.load for text in texts], 6), is_right=True),
        _Column("CPU now → des.", _fit("CPU now → des.", [text.cpu for text in texts], 22)),
        _Column("memory GiB", _fit("memory GiB", [text.memory for text in texts], 20)),
    ]
    taken = sum(column.width + 2 for column in columns)
    is_wide = width >= WIDE
    for_name = width // 4 if is_wide else width - taken
    name = _Column("VM", max(6, min(_fit("VM", [text.vm for text in texts], 40), for_name)))
    if is_wide:
        rest = width - taken - name.width - 2
        columns.append(_Column("last decision, and why", max(10, rest)))
    return [name, *columns]


def _fit(title: str, cells: Sequence[str], at_most: int) -> int:
    return min(at_most, max(len(title), *(len(cell) for cell in cells)))


def _line(cells: Sequence[str], columns: Sequence[_Column], style: str) -> Text:
    line = Text(style=style)
    for index, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        text = Text(cell)
        text.truncate(column.width, overflow="ellipsis")
        text.align("right" if column.is_right else "left", column.width)
        line.append("  " if index else "")
        line.append_text(text)
    return line
