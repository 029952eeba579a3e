"""The demo's live screen: counters, processes, addresses, and each VM with the reason of its last decision.

`draw` turns facts into exactly as many lines as the terminal has; no line is wider than it. Peers' text is
never read as markup.
"""

from __future__ import annotations

import textwrap
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
        notes: lines of its own, such as what guests say of themselves.
    """

    view: FleetView | None
    absence: str
    children: Sequence[ChildState]
    completed: dict[str, int]
    flower_url: str
    logs: Path
    elapsed_s: float
    limit_s: float | None
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width: int
    is_right: bool = False


def draw(facts: DemoFacts, width: int, height: int) -> Text:
    """The whole screen: `height` lines at most, joined by line breaks."""
    head = _head(facts, width)
    if facts.view is None:
        lines = [*head, Text(), Text(printable(facts.absence), style="yellow")]
    else:
        lines = head + _table(facts.view, width, height - len(head))
    shown = lines[: max(1, height)]
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(shown)


def _head(facts: DemoFacts, width: int) -> list[Text]:
    lines = [_title(facts)]
    if facts.view is not None:
        lines += [_counters(facts.view), _workers(facts.view)]
    lines += _children(facts.children, width)
    lines.append(Text.assemble(("Flower ", "dim"), facts.flower_url, ("   logs ", "dim"), str(facts.logs)))
    lines += [Text(printable(note, 200), style="magenta") for note in facts.notes]
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
    return line


def _counters(view: FleetView) -> Text:
    counters, totals = view.counters, view.totals
    return Text(
        f"{counters.get('polls', 0)} polls  {counters.get('denied', 0)} denied,"
        f" {counters.get('failed', 0)} failed, {counters.get('not_applied', 0)} not applied"
        f"  CPU {cpu_text(totals.cpu_use_m)} → {cpu_text(totals.cpu_desired_m)}"
    )


def _workers(view: FleetView) -> Text:
    held = sum(row.holder is not None for row in view.leases)
    line = Text.assemble(("leases ", "dim"), f"{held}/{len(view.leases)}")
    for worker in view.workers:
        line.append(f"  {printable(worker.name, 24)}", style="bold")
        line.append(f" {count_text(len(worker.buckets), 'bucket')}, {count_text(worker.vms, 'VM')}")
    if not view.workers:
        line.append("  no worker yet", style="yellow")
    return line


def _children(children: Sequence[ChildState], width: int) -> list[Text]:
    """The processes, in as many lines as they need."""
    lines = [Text("processes", style="dim")]
    for child in children:
        if not child.is_running:
            piece = Text(f"{child.name} down ({printable(child.last_end, 60)})", style="not dim bold red")
        elif child.restarts:
            piece = Text(f"{child.name} ↻{child.restarts}", style="not dim yellow")
        else:
            piece = Text(child.name, style="not dim green")
        if lines[-1].cell_len + 2 + piece.cell_len > width:
            lines.append(Text(" " * len("processes"), style="dim"))
        lines[-1].append("  ").append_text(piece)
    return lines


def _table(view: FleetView, width: int, room: int) -> list[Text]:
    if not view.vms:
        return [
            Text(),
            Text("no VM has been polled yet: workers take up their buckets first", style="yellow"),
        ]
    is_wide = width >= WIDE
    body = max(room - 1, _LEAST_ROWS)
    lines_each = 1 if is_wide else 2
    fitting = body // lines_each
    if len(view.vms) > fitting:
        fitting = (body - 1) // lines_each
    texts = [describe(row, view.now_ms) for row in choose_rows(view.vms, fitting)]
    columns = _columns(texts, width)
    lines = [_line([column.title for column in columns], columns, "bold underline")]
    shown = 0
    for text in texts:
        block = _block(text, columns, width, is_wide=is_wide)
        # The last line is kept for the number of those that are hidden.
        if len(lines) + len(block) > room - (shown + 1 < len(view.vms)):
            break
        lines += block
        shown += 1
    if hidden := len(view.vms) - shown:
        lines.append(Text(f"… and {count_text(hidden, 'VM')} more: vmscaler vm list", style="dim"))
    return lines


def _block(text: RowTexts, columns: Sequence[_Column], width: int, *, is_wide: bool) -> list[Text]:
    """A VM's lines: one on a wide terminal, else its reason in at most two lines below."""
    cells = [text.vm, text.bucket, text.worker, text.load, text.cpu, text.memory]
    style = _STYLES[text.trend]
    if is_wide:
        return [_line([*cells, text.why], columns, style)]
    reason = textwrap.wrap(
        text.why,
        max(20, width),
        max_lines=2,
        placeholder=" …",
        initial_indent="    ",
        subsequent_indent="    ",
    )
    return [_line(cells, columns, style), *(Text(line, style="dim") for line in reason)]


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
