"""Beat's HTTP server: `/healthz`, `/readyz`, `/metrics`, from a thread of its own: a stuck beat answers."""

from __future__ import annotations

from app.adapters.clock import SystemClock
from app.bootstrap.beat_metrics import serve_beat_metrics
from app.bootstrap.security import protection
from app.bootstrap.worker_web import listening_port, told_address
from app.config import Settings
from app.ports.runtime import Concurrency
from app.services.pulse import Pulse
from app.web.own_loop import OwnLoopServer
from app.web.ready import add_pulse_page, add_ready_page
from app.web.server import Limits, WebServer
from app.web.worker import WorkerApplication

STUCK_AFTER_S = 30.0
"""Turns come each second; one that waits for a Redis that is silent may take some of its time limits."""


class BeatHealth:
    """What beat knows of its own progress; its loop writes, the server's thread reads.

    Attributes:
        turns: of the loop that sends the ticks.
        role: leader, standby, or starting.
        problem: what is wrong with Redis; "" while all is well.
        application: further pages are added before `start`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.turns = 0
        self.role = "starting"
        self.problem = ""
        pulse = Pulse(lambda: self.turns, SystemClock(), STUCK_AFTER_S, "the loop that sends the ticks")
        self.application = WorkerApplication()
        add_pulse_page(self.application, pulse, self._facts)
        add_ready_page(self.application, self._reasons)
        self._server = OwnLoopServer("beat", self._build)
        self._is_started = False

    @property
    def address(self) -> str | None:
        """Where others reach it; None while it does not listen."""
        port = self._server.port
        return None if port is None else told_address(self._settings, port)

    @property
    def problems(self) -> list[str]:
        """For the registry."""
        return [self._server.problem] if self._server.problem else []

    def start(self) -> None:
        """Serve until `stop`, or the end of the process; the second time does nothing."""
        if not self._is_started:
            self._is_started = True
            self._server.start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.stop()

    def turned(self, role: str, problem: str) -> None:
        """The loop has had a turn."""
        self.turns += 1
        self.role, self.problem = role, problem

    def _build(self, concurrency: Concurrency) -> WebServer:
        web = self._settings.web
        rules = protection(self._settings.security.servers.web, ".security.servers.web")
        limits = Limits(connections=16, body_bytes=0)
        port = listening_port(web.port, "beat")
        serve_beat_metrics(
            self.application,
            concurrency,
            lambda: self.role,
            lambda: self.turns,
            lambda: len(self.problems) + bool(self.problem),
        )
        return WebServer(self.application, web.host, port, limits=limits, protection=rules)

    def _facts(self) -> dict[str, object]:
        return {"role": self.role, "redis": self.problem or "ok"}

    def _reasons(self) -> list[str]:
        if self.role == "starting":
            return ["the schedule is not written yet"]
        return [f"Redis: {self.problem}"] if self.problem else []
