"""Reports of VMs that can't be read, on the platform that has a place for them."""

from __future__ import annotations

from app.config import Settings
from app.ports.platform import Platform
from app.ports.runtime import Clock
from app.ports.vm_reports import VmReports
from app.services.agent import Agent
from app.services.supervisor import Supervisor
from app.services.unreadable_vms import UnreadableVms


def report_unreadable(
    settings: Settings, worker: str, agent: Agent, supervisor: Supervisor, platform: Platform, clock: Clock
) -> None:
    """Let the agent name them in the registry, and with platform neonvm by events on their objects."""
    reports: VmReports | None = None
    if settings.platform.kind == "neonvm":
        from app.bootstrap.kubernetes import build_vm_events

        reports = build_vm_events(settings, platform, clock, worker)
    part = UnreadableVms(supervisor.inventory, supervisor.bucket_of, reports)
    agent.add_part(part)
    agent.shown["unreadable"] = part.shown
