"""Whether this worker gets anywhere: turns of its loop, and tasks ended while some wait in its queues.

What counts is work done, never a ping: a half-open socket answers no ping that nobody sends. A Redis that is
away, or a beat that sends nothing, is no lack of progress: then nothing waits, or nobody can know.

All times here are counted in turns, each a second of this process' own: one that was stopped for an hour and
wakes up has lost one turn. Greenlets write, the watchdog's native thread reads: plain numbers, no lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.errors import StoreUnavailable
from app.ports.runtime import QueueLengths, Signal

logger = logging.getLogger(__name__)

TURN_S = 1.0
"""Length of a turn."""

QUIET_TURNS = 2
"""Turns without a task before the queues are asked: a busy worker asks none."""


@dataclass(frozen=True, slots=True)
class ProgressLimits:
    """How many turns may pass without progress; 0: any number.

    Attributes:
        blocked: turns of the watchdog without a turn of the loop.
        idle: turns of the loop in which tasks wait and none ends.
    """

    blocked: int
    idle: int


class Progress:
    """What one worker has done. `run` is its job, `task_ended` is called for each task.

    Args:
        names: the queues that are consumed now.

    Attributes:
        turns: turns of the loop.
        tasks: tasks that have ended, those included that came too late.
        idle_turns: turns in a row in which tasks waited and none ended.
        waiting: tasks that waited when the queues were last asked.
        redis_problem: why they could not be asked; empty while they can.
        is_over: the worker stops; nobody is to expect progress.
    """

    def __init__(
        self, limits: ProgressLimits, queues: QueueLengths, names: Callable[[], Iterable[str]]
    ) -> None:
        self.limits = limits
        self._queues = queues
        self._names = names
        self._tasks_before = 0
        self._quiet_turns = 0
        self.turns = 0
        self.tasks = 0
        self.idle_turns = 0
        self.waiting = 0
        self.redis_problem = ""
        self.is_over = False

    def task_ended(self) -> None:
        """A task was taken from a queue and is done with, however it went."""
        self.tasks += 1

    def run(self, stop: Signal) -> None:
        """Turn until stopped."""
        while not stop.wait(TURN_S):
            self.turn()
        self.is_over = True

    def turn(self) -> None:
        """One turn of the loop: see whether tasks have ended, and else whether there are any."""
        self.turns += 1
        if self.tasks != self._tasks_before:
            self._tasks_before = self.tasks
            self._quiet_turns = self.idle_turns = self.waiting = 0
            # Redis gave them: a busy worker asks no queue, and would never learn that it is back.
            self.redis_problem = ""
            return
        self._quiet_turns += 1
        if self._quiet_turns >= QUIET_TURNS:
            self._ask_queues()

    def problems(self) -> list[str]:
        """What an operator should know: half the time until the watchdog acts is over, or more."""
        if not self.limits.idle or self.idle_turns * 2 < self.limits.idle:
            return []
        return [self._idle_text()]

    def verdict(self) -> str | None:
        """Why this worker must be ended; None while it need not be."""
        if self.is_over or not self.limits.idle or self.idle_turns < self.limits.idle:
            return None
        return self._idle_text()

    def _ask_queues(self) -> None:
        try:
            self.waiting = self._queues.waiting(self._names())
        except StoreUnavailable as err:
            self.redis_problem = err.problem
            self.idle_turns = self.waiting = 0
            return
        self.redis_problem = ""
        self.idle_turns = self.idle_turns + 1 if self.waiting else 0

    def _idle_text(self) -> str:
        return (
            f"{self.waiting} tasks wait in this worker's queues, Redis answers, "
            f"and no task has ended for {self.idle_turns * TURN_S:.0f} s"
        )


class Watch:
    """Judges from outside of the loop. `turn` is called once a `TURN_S`, by a thread that nothing blocks."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._turns_before = -1
        self._blocked = 0

    def turn(self) -> str | None:
        """Why the worker must be ended now; None while it need not be."""
        progress = self._progress
        if progress.is_over:
            return None
        if progress.turns != self._turns_before:
            self._turns_before = progress.turns
            self._blocked = 0
            return progress.verdict()
        self._blocked += 1
        limit = progress.limits.blocked
        if not limit or self._blocked < limit:
            return None
        return f"nothing has had a turn for {self._blocked * TURN_S:.0f} s: something blocks the whole worker"
