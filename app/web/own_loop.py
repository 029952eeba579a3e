"""A server in a thread of the kernel, with an event loop of its own.

It answers also while something blocks the process' own loop, which is when an operator asks for a state dump,
and in processes that have no such loop (beat). What it calls must take no lock that others hold for long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.adapters.green import GreenConcurrency
from app.adapters.native_thread import start_native
from app.errors import ConfigurationError
from app.ports.runtime import Concurrency
from app.web.server import WebServer

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 5.0
"""Pause before an address that can't be listened on is tried again."""

LOOK_EVERY_S = 0.1
"""How often the thread sees whether it is to end."""


class OwnLoopServer:
    """A server that `start` begins and `stop` ends, once each.

    Args:
        build: makes the server; called in the thread, with its concurrency.
        name: of the server, for the log.

    Attributes:
        port: that it listens on; None while it does not.
        problem: why it does not listen, "" while all is well.
    """

    def __init__(self, name: str, build: Callable[[Concurrency], WebServer]) -> None:
        self._name = name
        self._build = build
        self._is_stopping = False
        self.is_over = False
        self.port: int | None = None
        self.problem = ""

    def start(self) -> None:
        """Begin; does not wait until it listens."""
        start_native(self._run)

    def stop(self) -> None:
        """End it soon; does not wait: `is_over` says when."""
        self._is_stopping = True

    def _run(self) -> None:
        concurrency = GreenConcurrency()
        try:
            while not self._is_stopping:
                server = self._build(concurrency)
                if self._is_listening(server):
                    self._serve(server, concurrency)
                else:
                    self._pause(concurrency, TRY_AGAIN_S)
        finally:
            self.port, self.is_over = None, True

    def _serve(self, server: WebServer, concurrency: Concurrency) -> None:
        self.port = server.port
        while not self._is_stopping:
            concurrency.sleep(LOOK_EVERY_S)
        self.port = None
        server.stop()

    def _pause(self, concurrency: Concurrency, seconds: float) -> None:
        for _ in range(round(seconds / LOOK_EVERY_S)):
            if not self._is_stopping:
                concurrency.sleep(LOOK_EVERY_S)

    def _is_listening(self, server: WebServer) -> bool:
        try:
            server.start()
        except ConfigurationError as err:
            if not self.problem:
                logger.error("server does not listen", extra={"server": self._name, "reason": str(err)})
            self.problem = f"{self._name}: {'; '.join(err.problems)}"
            return False
        self.problem = ""
        logger.info(
            "server listens in a thread of its own", extra={"server": self._name, "port": server.port}
        )
        return True
