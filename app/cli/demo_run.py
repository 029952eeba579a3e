"""The demo while it runs: keeps its processes alive, reads the fleet once a second, shows it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import is_answering
from app.adapters.log_files import bound_logs
from app.cli.demo_output import Output, choose_output
from app.cli.demo_report import Tally
from app.cli.demo_setup import DemoSetup, redis_spec
from app.cli.screen import DemoFacts
from app.config.loading import load_settings
from app.errors import StoreUnavailable, VmscalerError
from app.ports.processes import ProcessSpec
from app.services.fleet_view import FleetView
from app.services.inspection import Inspection
from app.services.process_keeping import ProcessKeeper

STEP_S = 0.25
"""How often the children are looked at."""

LOOK_EVERY_S = 1.0
"""How often the fleet is read and shown."""


class StopRequest:
    """Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, the second for one at once."""

    def __init__(self) -> None:
        """Takes the signals over, from now to the end of the process."""
        self.signal_number: int | None = None
        self.is_urgent = False
        self._asked = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a request; whether there is one."""
        return self._asked.wait(timeout_s)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            self.is_urgent = True
            raise KeyboardInterrupt
        self.signal_number = number
        self._asked.set()


class Companion(Protocol):
    """Takes part in a run beside the fleet."""

    def notes(self, view: FleetView | None, elapsed_s: float) -> Sequence[str]:
        """Lines for the screen; called at each look, with what was seen."""
        ...


class DemoRun:
    """One run, from the first process to the moment when all shall stop."""

    def __init__(
        self,
        setup: DemoSetup,
        server: Path,
        keeper: ProcessKeeper,
        request: StopRequest,
        *,
        specs: Sequence[ProcessSpec],
        limit_s: float | None,
        companion: Companion | None = None,
    ) -> None:
        """What is started and shown.

        Args:
            server: the Redis program.
            specs: all processes but Redis.
            limit_s: when it ends by itself; None: never.
            companion: who has something of its own to do and to show.
        """
        # Imported here: it reaches every adapter, and `vmscaler demo --help` needs none.
        from app.bootstrap.reading import build_inspection

        self.setup = setup
        self.limit_s = limit_s
        self.tally = Tally()
        self._server = server
        self._keeper = keeper
        self._request = request
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._inspection: Inspection = build_inspection(load_settings(None, setup.environment))
        self._waiting = list(specs)
        self._companion = companion

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic() - self._started

    def watch(self) -> None:
        """Run until the time is over or a signal asks for the end."""
        with choose_output() as output:
            self._keeper.start(redis_spec(self.setup, self._server))
            next_look = 0.0
            while not self._is_over():
                self._keeper.tick()
                self._start_waiting()
                if self.elapsed_s >= next_look:
                    next_look = self.elapsed_s + LOOK_EVERY_S
                    self._look(output)
                    bound_logs(self.setup.logs)
                if self._request.wait(STEP_S):
                    return
            self._look(output)

    def _is_over(self) -> bool:
        return self.limit_s is not None and self.elapsed_s >= self.limit_s

    def _start_waiting(self) -> None:
        """Start the others once Redis answers."""
        if self._waiting and is_answering(self.setup.redis_socket):
            for spec in self._waiting:
                self._keeper.start(spec)
            self._waiting.clear()

    def _look(self, output: Output) -> None:
        view, absence = self._read()
        completed = () if view is None else self.tally.take(view, self.elapsed_s)
        facts = DemoFacts(
            view=view,
            absence=absence,
            children=self._keeper.states(),
            completed=self.tally.completed,
            flower_url=self.setup.flower_url,
            logs=self.setup.logs,
            elapsed_s=self.elapsed_s,
            limit_s=self.limit_s,
            notes=() if self._companion is None else self._companion.notes(view, self.elapsed_s),
        )
        output.show(facts, self.tally, completed)

    def _read(self) -> tuple[FleetView | None, str]:
        """The fleet, or why there is nothing to see."""
        if self._waiting:
            return None, "waiting for Redis to answer"
        try:
            return self._inspection.fleet_view(), ""
        except StoreUnavailable as err:
            return None, f"Redis gives no answer: {err.problem}"
        except VmscalerError as err:
            return None, str(err)
