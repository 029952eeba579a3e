"""Where the demo shows itself: a live screen on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live

from app.cli.demo_report import Completed, Tally, completed_line, progress_line
from app.cli.screen import DemoFacts, draw
from app.protocols.printable import printable

PROGRESS_EVERY_S = 5.0
"""How often the state of things is printed where there is no terminal."""


class Output(Protocol):
    """Shows facts; entered before the first and left after the last."""

    def show(self, facts: DemoFacts, tally: Tally, completed: Sequence[Completed]) -> None:
        """Show what is now; `completed`: resizes completed since the last time."""
        ...

    def __enter__(self) -> Output: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def choose_output() -> Output:
    """The live screen if standard output is a terminal that can show it."""
    console = Console()
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else PlainLines()


class LiveScreen:
    """Draws over the terminal's second screen, so that what was there comes back at the end.

    Each drawing writes over the last one without clearing first: nothing flickers.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        # No thread of its own: children follow the thread that started them, and it draws too.
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def show(self, facts: DemoFacts, tally: Tally, completed: Sequence[Completed]) -> None:
        """Draw the whole screen in the terminal's size of now."""
        width, height = self._console.size
        self._live.update(draw(facts, width, height), refresh=True)

    def __enter__(self) -> LiveScreen:
        """Change to the second screen."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Change back."""
        self._live.stop()


class PlainLines:
    """A line per completed resize, process started again, and note; one about the whole now and then."""

    def __init__(self) -> None:
        self._next_progress_s = 0.0
        self._has_said_where = False
        self._restarts: dict[str, int] = {}
        self._notes: tuple[str, ...] = ()

    def show(self, facts: DemoFacts, tally: Tally, completed: Sequence[Completed]) -> None:
        """Print what is new."""
        if not self._has_said_where:
            self._has_said_where = True
            click.echo(f"Flower {facts.flower_url}   logs {facts.logs}   config.json beside them")
        for done in completed:
            click.echo(completed_line(done, facts.elapsed_s))
        for note in facts.notes:
            if note not in self._notes:
                click.echo(f"{facts.elapsed_s:6.1f}s {printable(note, 200)}")
        self._notes = tuple(facts.notes)
        for child in facts.children:
            if child.restarts > self._restarts.get(child.name, 0):
                self._restarts[child.name] = child.restarts
                end = printable(child.last_end)
                click.echo(f"{facts.elapsed_s:6.1f}s {child.name} had ended ({end}), started again")
        if facts.elapsed_s >= self._next_progress_s:
            self._next_progress_s = facts.elapsed_s + PROGRESS_EVERY_S
            click.echo(progress_line(tally, facts.view, facts.absence, facts.elapsed_s))

    def __enter__(self) -> PlainLines:
        """Nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to undo."""
