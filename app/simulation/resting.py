"""A VM at rest, played without its core: ticks to the scheduler, and one downscale denied again and again.

Two weeks hold some 80,000 ticks, and where the memory rule of the core and that of the monitor differ by a
unit, twice as many denials. None of them changes anything but its own time, until the demand does. So such
a stretch is played with two timers, and the core is told of the last tick and the last denial only: its
state is then the one that it would have had (tests compare the two).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.actions import ActionSet
from app.core.model import CoreConfig
from app.core.resources import Resources, resources
from app.core.state import State


@dataclass(slots=True)
class Rest:
    """The timers, in milliseconds.

    Attributes:
        config: periods of the ticks and of a denial's cooldown.
        answer_ms: what the monitor takes to answer.
        ticked_at: the last tick.
        denied_at: the last denial; None: none is in force, and none will come.
        asked_at: since when the monitor is being asked; None: it isn't.
        denials: those since the rest began.
    """

    config: CoreConfig
    answer_ms: int
    ticked_at: int
    denied_at: int | None = None
    asked_at: int | None = None
    denials: int = 0

    def play(self, until: int) -> None:
        """Let everything happen that comes due before `until`."""
        while self._step(until):
            continue

    def next_due(self) -> int:
        """When the core would be asked again."""
        tick = self.ticked_at + self.config.plugin_request_tick
        if self.denied_at is None:
            return tick
        return min(tick, self.denied_at + self.config.monitor_denied_downscale_cooldown)

    def _step(self, until: int) -> bool:
        period = self.config.plugin_request_tick
        if self.asked_at is not None:
            answered = self.asked_at + self.answer_ms
            if answered >= until:
                return False
            self.asked_at, self.denied_at = None, answered
            self.denials += 1
            if self.ticked_at + period <= answered:
                self.ticked_at = answered
            return True
        due = self.next_due()
        if due >= until:
            return False
        if self.denied_at is None:
            self.ticked_at += (until - 1 - self.ticked_at) // period * period
            return False
        if self.ticked_at + period <= due:
            self.ticked_at = due
        if self.denied_at + self.config.monitor_denied_downscale_cooldown <= due:
            self.asked_at = due
        return True


def begin_rest(state: State, now: int, actions: ActionSet, answer_ms: int) -> Rest | None:
    """The rest that begins now, if nothing but ticks, or a denial's cooldown and ticks, is ahead; else None.

    Args:
        actions: what the core has just said; whether the denial will repeat is for the caller to judge.
        answer_ms: what the monitor takes to answer.
    """
    use, plugin, monitor, config = state.vm.use, state.plugin, state.monitor, state.config
    last = plugin.last_request
    if actions.has_requests or actions.desired != use or last is None:
        return None
    is_settled = (
        not plugin.ongoing
        and plugin.permit == use
        and last.resources == use
        and monitor.approved == use
        and monitor.ongoing is None
        and state.platform.ongoing is None
    )
    if not is_settled or _is_pausing(plugin.failed_at, config.plugin_retry_wait, now):
        return None
    asked = monitor.requested_upscale
    if asked is not None and asked.at + config.monitor_requested_upscale_valid_period > now:
        return None
    rest = Rest(config, answer_ms, last.at)
    denied = monitor.denied_downscale
    if denied is not None and denied.at + config.monitor_denied_downscale_cooldown > now:
        if config.monitor_downscale_follow_up_wait > config.monitor_denied_downscale_cooldown:
            return None
        if _is_pausing(monitor.downscale_failed_at, config.monitor_retry_wait, now):
            return None
        rest.denied_at = denied.at
    return rest


def downscale_to_come(state: State, units: int) -> Resources | None:
    """What the monitor will be asked once a denial is over and the load asks for `units`."""
    unit, approved = state.compute_unit, state.monitor.approved
    if unit is None or approved is None:
        return None
    goal = resources(unit.cpu * units, unit.mem * units)
    return goal.min(state.vm.max).max(state.vm.min).min(approved)


def _is_pausing(failed_at: int | None, wait: int, now: int) -> bool:
    return failed_at is not None and failed_at + wait > now
