"""Keeps child processes alive: starts them, starts again what died, stops all in order.

Nothing here runs by itself: the caller calls `ProcessKeeper.tick` a few times a second, from the main thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.ports.processes import ChildProcess, ProcessLauncher, ProcessSpec
from app.ports.runtime import Clock

logger = logging.getLogger(__name__)

RESTART_AFTER_S = 2.0
"""How long a child that died stays down: one that can't start must not use up the machine."""

STOP_POLL_S = 0.05
"""How often `stop` looks whether the children are gone."""


@dataclass(frozen=True, slots=True)
class ChildState:
    """One child as an operator sees it.

    Attributes:
        pid: of the running process; None while it is down.
        restarts: how often it was started again.
        last_end: how its last run ended; empty if it never has.
    """

    name: str
    pid: int | None
    restarts: int
    last_end: str
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether there is a process now."""
        return self.pid is not None


@dataclass(slots=True)
class _Child:
    spec: ProcessSpec
    process: ChildProcess | None = None
    restarts: int = 0
    last_end: str = ""
    restart_at: float = 0.0


class ProcessKeeper:
    """Owns a set of children; see the module for who calls it."""

    def __init__(
        self,
        launcher: ProcessLauncher,
        clock: Clock,
        *,
        sleep: Callable[[float], None],
        restart_after_s: float = RESTART_AFTER_S,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._sleep = sleep
        self._restart_after_s = restart_after_s
        self._children: dict[str, _Child] = {}

    def start(self, spec: ProcessSpec) -> None:
        """Start a child and keep it alive from now on.

        One that can't be started counts as died: it is tried again like any other.

        Raises:
            ValueError: there is a child of that name.
        """
        if spec.name in self._children:
            raise ValueError(f"there is a child named {spec.name}")
        child = _Child(spec)
        self._children[spec.name] = child
        self._launch(child)

    def tick(self) -> None:
        """Note which children have died, and start again those that have been down long enough."""
        now = self._clock.monotonic()
        for child in self._children.values():
            if child.process is None:
                if now >= child.restart_at:
                    child.restarts += 1
                    self._launch(child)
            elif (end := child.process.poll()) is not None:
                self._mark_down(child, end)

    def states(self) -> tuple[ChildState, ...]:
        """All children, in the order of their start."""
        return tuple(
            ChildState(
                name=child.spec.name,
                pid=None if child.process is None else child.process.pid,
                restarts=child.restarts,
                last_end=child.last_end,
                log=child.spec.log,
            )
            for child in self._children.values()
        )

    def stop(self, grace_s: float) -> tuple[str, ...]:
        """Stop all, wave by wave; returns the names of those that had to be killed.

        If it is interrupted, `kill` ends those that are left.

        Args:
            grace_s: how long each wave has before what is left of it is killed.
        """
        children = tuple(self._children.values())
        killed: list[str] = []
        for wave in sorted({child.spec.stop_wave for child in children}):
            members = [child for child in children if child.spec.stop_wave == wave]
            killed += self._stop_wave(members, grace_s)
        self._children.clear()
        return tuple(killed)

    def kill(self) -> None:
        """End all at once; for an operator who does not want to wait, and for errors."""
        for child in self._children.values():
            if child.process is not None:
                child.process.kill()
        self._children.clear()

    def _launch(self, child: _Child) -> None:
        try:
            child.process = self._launcher.start(child.spec)
        except OSError as err:
            self._mark_down(child, f"not started: {err.strerror or err}")

    def _mark_down(self, child: _Child, end: str) -> None:
        child.process = None
        child.last_end = end
        child.restart_at = self._clock.monotonic() + self._restart_after_s
        logger.warning("a child process ended", extra={"child": child.spec.name, "end": end})

    def _stop_wave(self, members: Sequence[_Child], grace_s: float) -> list[str]:
        running = [(child.spec.name, child.process) for child in members if child.process is not None]
        for _, process in running:
            process.terminate()
        deadline = self._clock.monotonic() + grace_s
        while running := [(name, process) for name, process in running if process.poll() is None]:
            if self._clock.monotonic() >= deadline:
                break
            self._sleep(STOP_POLL_S)
        for _, process in running:
            process.kill()
        return [name for name, _ in running]
