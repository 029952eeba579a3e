"""The table of `vmscaler simulate`: a figure a line, a column a run or VM."""

from __future__ import annotations

from collections.abc import Sequence

import click

from app.cli.tables import Column, show_table
from app.services.what_if import Run, describe
from app.simulation.cost import Figures, Hours

MAX_COLUMNS = 8
"""VMs of a run that get a column of their own; more are shown together only."""


def show_runs(runs: Sequence[Run]) -> None:
    """Print each run's frame and notes, then the figures."""
    for run in runs:
        click.echo(f"{run.name}: {describe(run)}" if run.name else describe(run))
        for note in run.notes:
            click.echo(f"note: {note}")
    columns: list[tuple[str, Figures]] = []
    for run in runs:
        if len(runs) == 1 and 1 < len(run.vms) <= MAX_COLUMNS:
            columns += [(vm.plan.name, vm.figures) for vm in run.vms]
        columns.append((run.name or ("value" if len(run.vms) == 1 else "all"), run.total))
    click.echo()
    titles = [Column("figure"), *(Column(name, is_right=True) for name, _ in columns)]
    parts = [_rows(figures) for _, figures in columns]
    rows = [[parts[0][at][0], *(part[at][1] for part in parts)] for at in range(len(parts[0]))]
    show_table(titles, rows)


def _rows(figures: Figures) -> list[tuple[str, str]]:
    cpu, mem = figures.cpu, figures.mem
    return [
        *_hours("CPU-hours", cpu),
        *_hours("GiB-hours", mem),
        ("less than needed, of the time", _percent(figures.short_ms, figures.vm_ms)),
        ("  CPU, of the time", _percent(figures.short_cpu_ms, figures.vm_ms)),
        ("  CPU, of the demand", _percent(cpu.missing, cpu.demand)),
        ("  memory, of the time", _percent(figures.short_mem_ms, figures.vm_ms)),
        ("  memory, of the demand", _percent(mem.missing, mem.demand)),
        ("longest shortage", _span(figures.longest_ms)),
        ("resizes", str(figures.upscales + figures.downscales)),
        ("  up / down", f"{figures.upscales} / {figures.downscales}"),
        ("changes of direction a day", f"{figures.changes_per_day:.1f}"),
        ("downscales denied", str(figures.denied)),
        ("permits cut", str(figures.permits_cut)),
        ("failed polls and requests", str(figures.failures)),
    ]


def _hours(name: str, hours: Hours) -> list[tuple[str, str]]:
    return [
        (f"{name} allocated", f"{hours.allocated:.1f}"),
        ("  fixed at the maximum", f"{hours.fixed:.1f}"),
        ("  clairvoyant least", f"{hours.clairvoyant:.1f}"),
        ("  demand", f"{hours.demand:.1f}"),
        ("  saved of fixed", _percent(hours.fixed - hours.allocated, hours.fixed)),
        ("  above clairvoyant", _percent(hours.allocated - hours.clairvoyant, hours.clairvoyant)),
    ]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole + 0.0:.2f} %" if whole else "-"


def _span(milliseconds: int) -> str:
    """`2 d 3 h`, `1 h 5 min`, `5 min 30 s`, `31 s`: the two largest parts, rounded down."""
    seconds = milliseconds // 1000
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
    return " ".join(parts[:2]) or f"{milliseconds / 1000:g} s"
