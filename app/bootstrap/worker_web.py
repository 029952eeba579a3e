"""A worker's HTTP server: what it serves, where it listens, where others reach it."""

from __future__ import annotations

import logging
import re
import socket
from dataclasses import replace

from app.bootstrap.security import protection
from app.config import Settings
from app.errors import ConfigurationError
from app.ports.runtime import Signal
from app.services.stats import Stats
from app.web.server import Limits, WebServer
from app.web.stats import STATS_PATH, add_stats_page
from app.web.worker import WorkerApplication

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 5.0
"""Pause before an address that can't be listened on is tried again; the VMs are scaled meanwhile."""

LAST_PORT = 65_535

ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
"""Addresses to listen on that nobody can connect to."""


class WorkerWeb:
    """One worker's server; `run` once.

    Attributes:
        application: further pages are added before `run`.
        problem: why nothing is served, "" while all is well.

    Raises:
        ConfigurationError: there is no such port, or a file of `security` can't be used.
    """

    def __init__(self, settings: Settings, worker: str, stats: Stats) -> None:
        self._settings = settings
        self._host = settings.web.host
        self._port = listening_port(settings.web.port, numbered(settings, worker))
        rules = protection(settings.security.servers.web, ".security.servers.web")
        self._protection = replace(rules, own_tokens=frozenset({STATS_PATH}))
        self._server: WebServer | None = None
        self.application = WorkerApplication()
        self.problem = ""
        if stats.intake is not None:
            add_stats_page(self.application, stats.intake)

    @property
    def address(self) -> str | None:
        """Where others reach it, `host:port`; None while it does not listen."""
        return None if self._server is None else told_address(self._settings, self._server.port)

    def run(self, stop: Signal) -> None:
        """Listen, and serve until stopped."""
        while not stop.is_set() and not self._is_listening():
            stop.wait(TRY_AGAIN_S)
        stop.wait()
        self.close()

    def close(self) -> None:
        """Serve no more; a second time does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def _is_listening(self) -> bool:
        limits = Limits(body_bytes=self._settings.stats.max_body_bytes)
        server = WebServer(
            self.application, self._host, self._port, limits=limits, protection=self._protection
        )
        try:
            server.start()
        except ConfigurationError as err:
            if not self.problem:
                logger.error("HTTP server does not listen", extra={"reason": str(err)})
            self.problem = str(err)
            return False
        self.problem = ""
        self._server = server
        logger.info("HTTP server listens", extra={"address": self.address})
        return True


def told_address(settings: Settings, port: int) -> str:
    """`host:port` where others reach a server of ours that listens on `web.host`."""
    host = settings.web.host
    if host in ANYWHERE:
        host = settings.env.pod_ip or socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def numbered(settings: Settings, worker: str) -> str:
    """The name whose number is added to ports; "" where none is: a pod's name may end in any digits."""
    return worker if settings.web.add_worker_number else ""


def listening_port(base: int, worker: str, where: str = ".web.port") -> int:
    """A worker's port: the base and the number at the end of its name; 0 is any free one for all.

    Args:
        where: the setting, for the error.

    Raises:
        ConfigurationError: there is no such port.
    """
    number = re.search(r"([0-9]{1,4})\Z", worker)
    port = base + int(number[1]) if base and number else base
    if port > LAST_PORT:
        raise ConfigurationError([f"{where}: {base} and the number of {worker} are above {LAST_PORT}"])
    return port
