"""Is a running VM ok or stuck (`spec/agent.md`, "Runner"), and since when it counts.

Stuck: no successful monitor communication within the grace period from its start, for an endpoint from when
that was assigned; or none for the silence period since the last. A VM whose monitor is not ours to talk to is
never stuck for it: an observed one, one with `monitor: none`, one that migrates, one of another agent. Once
it is again, its time begins anew.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from app.ports.vm import MonitorPolicy
from app.services.leave import allowed_since, bar_of

if TYPE_CHECKING:
    from app.ports.runtime import Monotonic
    from app.services.runner import Runner

logger = logging.getLogger(__name__)

FAILED = ("errored", "panicked")
"""Of a runner that has ended by itself: it stays so until another one has taken its place."""


def update_status(runner: Runner, now: Monotonic) -> None:
    """See `Runner.update_status`."""
    if runner.has_failed:
        return
    if _is_excused(runner):
        runner.excused = now
    reason = stuck_reason(runner, now)
    status = "ok" if reason is None else "stuck"
    if status != runner.status:
        runner.audit.add("recovered" if reason is None else "stuck", why=reason or "the monitor answers")
        level = logging.INFO if reason is None else logging.WARNING
        facts = {"vm": runner.key, "status": status, "reason": reason or ""}
        logger.log(level, "runner status changed", extra=facts)
    runner.set_status(status, reason or bar_of(runner) or "")


def stuck_reason(runner: Runner, now: Monotonic) -> str | None:
    """Why the VM is stuck; None: it is not."""
    if _is_excused(runner):
        return None
    settings, ours_since = runner.settings, max(allowed_since(runner), runner.excused)
    if runner.monitor_ok is None:
        begun = runner.started if runner.endpoint_since is None else runner.endpoint_since
        if now - max(begun, ours_since) <= settings.grace_s:
            return None
        what = "the start" if runner.endpoint_since is None else "when its endpoint was assigned"
        return f"no word from the monitor within {settings.grace_s:g} s of {what}"
    if now - max(runner.monitor_ok, ours_since) <= settings.silence_s:
        return None
    return f"no word from the monitor for over {settings.silence_s:g} s"


def _is_excused(runner: Runner) -> bool:
    return (
        runner.vm.monitor is not MonitorPolicy.REQUIRED
        or runner.is_observed
        or runner.vm.migrating
        or bar_of(runner) is not None
    )
