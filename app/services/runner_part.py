"""How the runners of a worker do, for the registry: their states, their restarts, and VMs that have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.ports.runtime import Signal
from app.ports.store import BucketName, FencingToken
from app.protocols.printable import printable
from app.services.supervisor import Supervisor
from app.services.wording import count_text

STATES = ("ok", "stuck", "errored", "panicked")
"""All that a runner's status can be (`spec/agent.md`, "Runner")."""


class RunnerPart:
    """A part of the agent that only tells."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """None."""
        return {}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Nothing is kept by bucket."""

    def lost(self, bucket: BucketName) -> None:
        """Nothing is kept by bucket."""

    def counters(self) -> Mapping[str, int]:
        """Runs that have begun and failed since the worker's start, and VMs by the status of their runner."""
        counts = self._supervisor.counts
        states = dict.fromkeys(STATES, 0)
        for _, life, runner in self._supervisor.lives():
            if runner is not None:
                states[runner.status] += 1
            elif life.end is not None and life.end.kind.value in states:
                states[life.end.kind.value] += 1
        return {
            "runner_starts": counts.starts,
            "runner_restarts": counts.restarts,
            "runner_panics": counts.panics,
            "runner_errors": counts.errors,
            **{f"runners_{state}": count for state, count in states.items()},
        }

    def problems(self) -> list[str]:
        """VMs for which no runner can be made; the others' status is in their records."""
        ends = [
            (key, life.end)
            for key, life, runner in self._supervisor.lives()
            if runner is None and life.end is not None
        ]
        if not ends:
            return []
        key, end = min(ends, key=lambda each: each[0])
        return [
            printable(f"{count_text(len(ends), 'VM')} can't be run: {key} {end.kind.value}: {end.error}", 400)
        ]
