"""A VM at rest, played without its core: ticks, or one downscale denied or permit cut again and again.

Two weeks hold some 80,000 ticks; where the memory rules of the core and of the monitor differ by a unit,
twice as many denials; on a full node half a million permits that are cut. None of them changes anything but
its own time, until the demand or the node does. So such a stretch is played with timers, and the core is told
of the last of each only: its state is then the one that it would have had (tests compare the two).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.actions import ActionSet
from app.core.model import CoreConfig
from app.core.resources import Resources, resources
from app.core.state import State
from app.simulation.scenario import Delays


@dataclass(slots=True)
class Rest:
    """The timers, in milliseconds.

    Attributes:
        config: periods of the ticks and of a denial's cooldown.
        delays: what the monitor and the scheduler take to answer.
        ticked_at: the last tick, or the last request for what is not granted.
        wanted: what is asked for again and again and not granted; None: ticks only.
        denied_at: the last denial; None: none is in force, and none will come.
        asked_at: since when the monitor is being asked; None: it isn't.
        denials: those since the rest began; `cuts`: permits cut since then.
        is_permit_awaited: the scheduler has not answered the request of `ticked_at` yet.
    """

    config: CoreConfig
    delays: Delays
    ticked_at: int
    wanted: Resources | None = None
    denied_at: int | None = None
    asked_at: int | None = None
    denials: int = 0
    cuts: int = 0
    is_permit_awaited: bool = False

    def play(self, until: int) -> None:
        """Let everything happen that comes due before `until`."""
        step = self._step if self.wanted is None else self._step_starving
        while step(until):
            continue

    def next_due(self) -> int:
        """When the core would be asked again."""
        if self.wanted is not None:
            return self.ticked_at + self.config.plugin_denied_retry_wait
        tick = self.ticked_at + self.config.plugin_request_tick
        if self.denied_at is None:
            return tick
        return min(tick, self.denied_at + self.config.monitor_denied_downscale_cooldown)

    def _step(self, until: int) -> bool:
        period = self.config.plugin_request_tick
        if self.asked_at is not None:
            answered = self.asked_at + self.delays.monitor
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

    def _step_starving(self, until: int) -> bool:
        if self.is_permit_awaited:
            if self.ticked_at + self.delays.permit >= until:
                return False
            self.is_permit_awaited = False
            self.cuts += 1
        if self.next_due() >= until:
            return False
        self.ticked_at, self.is_permit_awaited = self.next_due(), True
        return True


def begin_rest(state: State, now: int, actions: ActionSet, delays: Delays) -> Rest | None:
    """The rest that begins now, if nothing but repetition is ahead; else None.

    Args:
        actions: what the core has just said; whether the denial will repeat is for the caller to judge.
        delays: what the others take to answer.
    """
    use, plugin, monitor, config = state.vm.use, state.plugin, state.monitor, state.config
    last = plugin.last_request
    desired = actions.desired
    if actions.has_requests or desired is None or desired.has_field_below(use) or last is None:
        return None
    is_settled = (
        not plugin.ongoing
        and plugin.permit == use
        and last.resources == desired
        and monitor.approved == use
        and monitor.ongoing is None
        and state.platform.ongoing is None
    )
    if not is_settled or _is_pausing(plugin.failed_at, config.plugin_retry_wait, now):
        return None
    asked = monitor.requested_upscale
    if asked is not None and asked.at + config.monitor_requested_upscale_valid_period > now:
        return None
    rest = Rest(config, delays, last.at)
    if desired != use:
        rest.wanted = desired
        is_short = delays.permit < config.plugin_denied_retry_wait <= config.plugin_request_tick
        return rest if is_short and not _is_cooling(state, now) else None
    denied = monitor.denied_downscale
    if denied is not None and _is_cooling(state, now):
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


def _is_cooling(state: State, now: int) -> bool:
    denied = state.monitor.denied_downscale
    return denied is not None and denied.at + state.config.monitor_denied_downscale_cooldown > now


def _is_pausing(failed_at: int | None, wait: int, now: int) -> bool:
    return failed_at is not None and failed_at + wait > now
