"""The built-in scheduler's process: server, the job that follows the platform, entry in the registry."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path

from app import __version__
from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.adapters.journal_file import JournalFile
from app.adapters.redis_agents import RedisAgents
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_keys import RedisKeys
from app.bootstrap.platform import build_platform
from app.bootstrap.scheduler_metrics import scheduler_metrics
from app.bootstrap.security import protection
from app.config import Settings
from app.config.own_sections import NodeSettings
from app.config.security_section import ServerSecurity
from app.core.permits import Amount
from app.errors import ConfigurationError
from app.ports.runtime import Signal
from app.services.announcing import Announcement
from app.services.node_scheduler import NodeScheduler
from app.web.scheduler import SchedulerApplication
from app.web.server import WebServer

WITHDRAW_S = 5.0
"""For the registry to be told of the end."""

ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
"""Addresses to listen on that nobody can connect to."""


class SchedulerProcess:
    """Everything that `vmscaler scheduler` runs; `run` once. Nothing connects before.

    Args:
        host: to listen on; None takes the configured one.
        port: likewise; 0 for a free one.
        journal: file for a line per question; None: no journal is kept.
        security: who may call, and TLS; None takes the configured rules.

    Raises:
        ConfigurationError: something that the configuration names can't be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        host: str | None = None,
        port: int | None = None,
        journal: Path | None = None,
        security: ServerSecurity | None = None,
    ) -> None:
        own = settings.node_scheduler
        host = own.host if host is None else host
        self._public_host = (settings.env.pod_ip or socket.gethostname()) if host in ANYWHERE else host
        self._platform = build_platform(settings)
        self._clock = SystemClock()
        self._concurrency = GreenConcurrency()
        connection = RedisConnection(settings.redis)
        self._registry = RedisAgents(connection, RedisKeys(settings.key_prefix))
        capacities = _capacities(settings)
        self._scheduler = NodeScheduler(self._platform, self._clock, capacities)
        self._journal = _open_journal(journal)
        application = SchedulerApplication(
            self._scheduler,
            own.compute_unit.resources(),
            self._journal.write if self._journal.is_kept else None,
            scheduler_metrics(self._scheduler, self._clock, self._concurrency),
        )
        security = security or settings.security.servers.node_scheduler
        rules = protection(security, ".security.servers.nodeScheduler")
        self._scheme = rules.scheme
        self._server = WebServer(application, host, own.port if port is None else port, protection=rules)
        self._uid = str(uuid.uuid4())
        self._started_ms = self._clock.wall_ms()
        self.stop: Signal = self._concurrency.signal()

    @property
    def url(self) -> str:
        """Where workers ask it; known once it listens."""
        host = f"[{self._public_host}]" if ":" in self._public_host else self._public_host
        return f"{self._scheme}://{host}:{self._server.port}"

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: the address can't be listened on.
        """
        self._server.start()

    def run(self) -> None:
        """Serve until `stop` is set, then end everything."""
        announcement = Announcement(self._registry, self._uid, self._facts)
        inventory = self._concurrency.spawn("inventory", lambda: self._scheduler.run(self.stop))
        registry = self._concurrency.spawn("registry", lambda: announcement.run(self.stop))
        self.stop.wait()
        self._server.stop()
        registry.join(WITHDRAW_S)
        # It may be in the middle of a long question to the platform, whose answer nobody needs any more.
        inventory.cancel()
        inventory.join(WITHDRAW_S)
        self._platform.close()
        self._journal.close()

    def _facts(self) -> Mapping[str, object] | None:
        """The registry's entry; None until the VMs are known: before that no question could be answered."""
        if not self._scheduler.is_ready:
            return None
        return {
            "kind": "scheduler",
            "name": "scheduler",
            "uid": self._uid,
            "url": self.url,
            "identity": f"scheduler_{self._public_host}",
            "agent_id": self._uid,
            "address": self.url.removeprefix(f"{self._scheme}://"),
            "started_ms": self._started_ms,
            "clock_ms": self._clock.wall_ms(),
            "version": __version__,
            "pid": os.getpid(),
            "buckets": [],
            "vms": self._scheduler.vm_count,
            "counters": {"grants": self._scheduler.grants, "refusals": self._scheduler.refusal_count},
            "problems": self._scheduler.problems,
        }


def _open_journal(path: Path | None) -> JournalFile:
    try:
        return JournalFile(path)
    except OSError as err:
        raise ConfigurationError([f"{err.strerror or err}"], source=str(path)) from err


def _capacities(settings: Settings) -> dict[str, Amount]:
    """Capacity by node: those of the configuration, and with platform qemu this host, unless it is one."""
    named = {node.name: _capacity(node) for node in settings.node_scheduler.nodes}
    if settings.platform.kind != "qemu":
        return named
    from app.bootstrap.qemu import host_node

    name, amount = host_node(settings)
    return {name: amount, **named}


def _capacity(node: NodeSettings) -> Amount:
    """What VMs may have of a node: its total minus what the system keeps."""
    reserved = Amount(node.reserved_milli_cpu, node.reserved_bytes)
    return Amount(node.milli_cpu, node.size_bytes).minus(reserved)
