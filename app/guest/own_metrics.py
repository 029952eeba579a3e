"""The daemon's own part of its metrics page (`docs/metrics.md`, "The daemon in a VM")."""

from __future__ import annotations

from app.guest.informant_agents import InformantAgents
from app.guest.monitor import Monitor
from app.guest.oom import OomWatch
from app.protocols.guest_metrics import AGENTS, CONNECTED, GUEST_FAMILIES, OOM_AGE


class OwnMetrics:
    """Reads what is not counted where it happens, and writes all of it."""

    def __init__(self, monitor: Monitor, agents: InformantAgents, oom: OomWatch) -> None:
        self._monitor = monitor
        self._agents = agents
        self._oom = oom

    def text(self) -> bytes:
        """The lines as of now, in Prometheus text."""
        CONNECTED.set(self._monitor.has_agent)
        AGENTS.set(len(self._agents.registered))
        if (age_s := self._oom.age_s()) is not None:
            OOM_AGE.set(round(age_s, 1))
        return "".join(family.text_now() for family in GUEST_FAMILIES).encode()
