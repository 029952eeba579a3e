"""Facts in columns: a rich table on a terminal, aligned plain text in a pipe.

Cells are plain text, never markup; they must be printable already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

_GAP = "  "
"""Between two columns."""

_LEAST_CUT = 16
"""Characters that a cut column keeps in any case."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        is_right: numbers stand to the right.
        is_wide: may be folded on a terminal that is too narrow; the others may not.
        is_cut: the last column, cut at the terminal's edge, so that a row stays a line.
    """

    title: str
    is_right: bool = False
    is_wide: bool = False
    is_cut: bool = False


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Write the table to standard output."""
    if sys.stdout.isatty():
        _show_rich(columns, rows)
        return
    for line in table_lines(columns, rows):
        click.echo(line)


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as aligned lines, titles first, two spaces between columns, no trailing spaces."""
    widths = [max([len(column.title), *(len(row[at]) for row in rows)]) for at, column in enumerate(columns)]
    lines = []
    for row in ([column.title.upper() for column in columns], *rows):
        cells = [
            cell.rjust(width) if column.is_right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def show_facts(facts: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Write `label  value` lines, values aligned; a fact with an empty value is left out."""
    present = [(label, value) for label, value in facts if value]
    width = max((len(label) for label, _ in present), default=0)
    for label, value in present:
        click.echo(f"{indent}{label.ljust(width)}  {value}")


def _show_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    # Imported here: it costs 40 ms, and a pipe does without it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(_GAP), 0, 0))
    for column in columns:
        table.add_column(
            column.title.upper(),
            justify="right" if column.is_right else "left",
            no_wrap=not column.is_wide,
            overflow="fold",
        )
    console = Console(highlight=False)
    room = console.width - _width_before_last(columns, rows)
    for row in rows:
        cells = [*row[:-1], _cut(row[-1], room)] if columns[-1].is_cut else row
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _width_before_last(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Columns of the terminal that all but the last column take, gaps included."""
    return sum(
        max([len(column.title), *(len(row[at]) for row in rows)]) + len(_GAP)
        for at, column in enumerate(columns[:-1])
    )


def _cut(cell: str, room: int) -> str:
    """The cell in `room` characters; on a terminal too narrow for that, in a few."""
    room = max(room, _LEAST_CUT)
    return cell if len(cell) <= room else cell[: room - 1] + "…"
