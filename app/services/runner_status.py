"""Is a running VM ok or stuck (`spec/agent.md`, "Runner"), and since when it counts.

Stuck: no successful monitor communication within the grace period from its start, for an endpoint from when
that was assigned; or none for the silence period since the last. A VM whose monitor is not ours to talk to is
never stuck for it: an observed one, one with `monitor: none`, one that migrates, one of another agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ports.vm import MonitorPolicy
from app.services.leave import allowed_since, bar_of

if TYPE_CHECKING:
    from app.ports.runtime import Monotonic
    from app.services.runner import Runner

FAILED = ("errored", "panicked")
"""Of a runner that has ended by itself: it stays so until another one has taken its place."""


def stuck_reason(runner: Runner, now: Monotonic) -> str | None:
    """Why the VM is stuck; None: it is not."""
    if (
        runner.vm.monitor is not MonitorPolicy.REQUIRED
        or runner.is_observed
        or runner.vm.migrating
        or bar_of(runner) is not None
    ):
        return None
    settings = runner.settings
    if runner.monitor_ok is None:
        begun = runner.started if runner.endpoint_since is None else runner.endpoint_since
        if now - max(begun, allowed_since(runner)) <= settings.grace_s:
            return None
        what = "the start" if runner.endpoint_since is None else "when its endpoint was assigned"
        return f"no word from the monitor within {settings.grace_s:g} s of {what}"
    if now - max(runner.monitor_ok, allowed_since(runner)) <= settings.silence_s:
        return None
    return f"no word from the monitor for over {settings.silence_s:g} s"
