"""A worker's state dump: collected beside its loop, served on a port of its own (`spec/agent.md`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.adapters.build_info import build_info
from app.bootstrap.security import protection
from app.bootstrap.worker_web import listening_port, numbered, told_address
from app.config import Settings
from app.ports.runtime import Clock, Concurrency, Signal
from app.ports.store import BucketName, FencingToken
from app.services.agent import Agent
from app.services.state_dump import StateDump
from app.web.dump import dump_application
from app.web.own_loop import LOOK_EVERY_S, OwnLoopServer
from app.web.server import Limits, WebServer

WRITE_S = 5.0
"""For a slow reader, after the time for collecting."""

CONNECTIONS = 8
"""At once; more of them wait to be accepted."""


class DumpPart:
    """The dump as a part of the agent: served until the agent has handed over what it holds."""

    def __init__(self, server: OwnLoopServer, agent: Agent, concurrency: Concurrency) -> None:
        self._server = server
        self._agent = agent
        self._concurrency = concurrency

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """See `AgentPart.jobs`."""
        return {"state dump": self._run}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Nothing is kept by bucket."""

    def lost(self, bucket: BucketName) -> None:
        """Nothing is kept by bucket."""

    def counters(self) -> Mapping[str, int]:
        """None."""
        return {}

    def problems(self) -> list[str]:
        """See `AgentPart.problems`."""
        return [self._server.problem] if self._server.problem else []

    def _run(self, stop: Signal) -> None:
        self._server.start()
        stop.wait()
        while self._agent.held_buckets():
            self._concurrency.sleep(LOOK_EVERY_S)
        self._server.stop()
        while not self._server.is_over:
            self._concurrency.sleep(LOOK_EVERY_S)


def serve_dump(settings: Settings, worker: str, agent: Agent, runtime: tuple[Clock, Concurrency]) -> None:
    """Let the agent serve its dump where `dumpState` is there; called after the agent was connected.

    Raises:
        ConfigurationError: there is no such port, or a file of `security.servers.web` can't be used.
    """
    own = settings.dump_state
    if own is None:
        return
    clock, concurrency = runtime
    port = listening_port(own.port, numbered(settings, worker), ".dumpState.port")
    rules = protection(settings.security.servers.web, ".security.servers.web")
    dump = StateDump(
        agent.supervisor,
        agent.scheduler_link,
        clock,
        lambda: agent.is_stopping,
        build_info(),
        timeout_s=own.timeout_seconds,
    )
    limits = Limits(
        connections=CONNECTIONS, body_bytes=0, request_s=own.timeout_seconds + WRITE_S, idle_s=1.0
    )

    def build(of_thread: Concurrency) -> WebServer:
        application = dump_application(dump, of_thread)
        return WebServer(application, settings.web.host, port, limits=limits, protection=rules)

    server = OwnLoopServer("state dump", build)

    def address() -> str | None:
        return None if server.port is None else told_address(settings, server.port)

    agent.shown["dump_address"] = address
    agent.add_part(DumpPart(server, agent, concurrency))
