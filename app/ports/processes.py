"""Child processes, as the service that keeps them alive sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run.

    Attributes:
        name: what an operator calls it; unique among the children of one keeper.
        argv: program and arguments; never a secret, everybody may read them.
        environment: the child's whole environment, nothing is inherited.
        directory: where it runs.
        log: the file that its output is appended to.
        stop_wave: children of a lower wave are stopped, and gone, before those of the next.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    log: Path
    stop_wave: int = 0


class ChildProcess(Protocol):
    """One started process, with everything that it starts itself."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def poll(self) -> str | None:
        """How it ended, as a short text, or None while it runs.

        At its end, what it has started and left behind in its process group is killed too.
        """
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM); no error if it has."""
        ...

    def kill(self) -> None:
        """End it and its process group at once; no error if it has ended."""
        ...


class ProcessLauncher(Protocol):
    """Starts processes that cannot outlive this one, however it ends."""

    def start(self, spec: ProcessSpec) -> ChildProcess:
        """Start it.

        Raises:
            OSError: it can't be started (no such program, no memory).
        """
        ...
