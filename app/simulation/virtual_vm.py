"""One VM and the part of the control plane that looks after it, in virtual time.

The decisions are the core's own: events go through `apply`, and what is done is what `next_actions` says,
one action at a time, as a worker does it. Between two events the core is asked again at a poll only if the
sample would give another number of units: nothing else of a sample enters a decision that asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from app.core.actions import ActionSet
from app.core.decide import next_actions
from app.core.events import (
    Event,
    MetricsArrived,
    MonitorActive,
    MonitorDownscaleAllowed,
    MonitorDownscaleDenied,
    MonitorDownscaleFailed,
    MonitorStartingDownscale,
    MonitorStartingUpscale,
    MonitorUpscaleFailed,
    MonitorUpscaleRequested,
    MonitorUpscaleSuccessful,
    PlatformFailed,
    PlatformStarting,
    PlatformSuccessful,
    PluginFailed,
    PluginNewScheduler,
    PluginStarting,
    PluginSuccessful,
)
from app.core.goal import cpu_goal, mem_goal
from app.core.model import CoreVm, Metrics, Millis
from app.core.resources import Resources
from app.core.state import State, initial_state
from app.core.transition import apply
from app.simulation.cost import Counts
from app.simulation.noise import noise
from app.simulation.resting import Rest, begin_rest, downscale_to_come
from app.simulation.scenario import ControlPlane, VmScenario
from app.simulation.virtual_guest import VirtualGuest
from app.simulation.virtual_peers import PermitBook


class Due(IntEnum):
    """What comes due for a VM; at the same moment the lower one goes first."""

    RESIZED = 0
    PERMIT = 1
    UPSCALE_TOLD = 2
    DOWNSCALE_ASKED = 3
    ASK_CORE = 4
    POLL = 5


Schedule = Callable[[int, Due], None]
"""Called with a moment and with what comes due then."""


class VirtualVm:
    """The VM, its core state, and those whom its core asks.

    Attributes:
        desired: the size that the core is after.
    """

    def __init__(self, plan: VmScenario, control: ControlPlane, book: PermitBook, schedule: Schedule) -> None:
        """A VM with its first size, that nobody has polled."""
        self.plan = plan
        self.guest = VirtualGuest(plan)
        self.desired = plan.first
        self.counts = Counts()
        self._control = control
        self._book = book
        self._schedule = schedule
        self._busy = False
        self._asked: Resources = plan.first
        self._metrics: Metrics | None = None
        self._quiet_units: int | None = None
        self._wake_at: int | None = None
        self._rest: Rest | None = None
        self._seen_version = -1
        self._draws = 0
        unit = control.unit
        # Units beyond any that a decision can tell apart: two more than the maximum takes.
        self._enough = 3 + max(plan.max.cpu // unit.cpu, plan.max.mem // unit.mem)
        vm = CoreVm(plan.name, "simulated", plan.min, plan.max, plan.first, plan.slot_bytes)
        self._state: State = initial_state(vm, control.core)
        self._apply(PluginNewScheduler())
        self._apply(MonitorActive(True))

    # --- from outside -------------------------------------------------------------------------------------

    def want(self, now: int, cpu: float, mem_bytes: float) -> None:
        """The demand from now on: CPUs, bytes. What comes due now comes due after it."""
        if mem_bytes != self.guest.wanted_bytes:
            # Whether the monitor denies depends on the memory in use.
            self._stir(now)
        self.guest.want(now, cpu, mem_bytes)

    def node_changed(self, now: int, cause: Due, *, is_first: bool) -> None:
        """Another VM holds more or less of the node than before: the next permit may be another one.

        Args:
            cause: what came due for the other VM.
            is_first: this VM goes first where the same comes due for both.
        """
        rest = self._rest
        if rest is None or rest.wanted is None:
            return
        rest.play(now)
        own = Due.PERMIT if rest.is_permit_awaited else Due.ASK_CORE
        is_before = own < cause or (own == cause and is_first)
        self._stir(now + 1 if is_before else now)

    def close(self, now: int) -> None:
        """The run ends: enter what has passed into the sums."""
        self.guest.settle(now)
        if self._rest is not None:
            self._end_rest(self._rest, now)

    # --- what comes due -----------------------------------------------------------------------------------

    def poll(self, now: int) -> None:
        """Take a sample; ask the core if it could say something new."""
        if self._fails("poll", self._control.rates.poll):
            return
        self._metrics = self.guest.sample(now)
        is_cramped = self.guest.is_cramped and self._state.monitor.is_active
        units = self._units()
        if units is not None and units == self._quiet_units and not is_cramped:
            return
        if self._rest is not None:
            self._end_rest(self._rest, now + 1)
        if is_cramped:
            self._apply(MonitorUpscaleRequested(Millis(now), cpu=False, memory=True))
        self._quiet_units = None
        if not self._busy:
            self._consider(now)

    def come_due(self, now: int, due: Due) -> None:
        """An answer arrives or a wait is over; a wait that has been replaced is passed over."""
        if due is Due.ASK_CORE:
            if now != self._wake_at:
                return
            self._wake_at = None
        else:
            self._finish(now, due)
            if due is not Due.RESIZED:
                self._busy = False
        self._quiet_units = None
        if not self._busy:
            self._consider(now)

    def _units(self) -> int | None:
        """Units that the last sample asks for; None before the first one and before the unit is known."""
        metrics, unit, scaling = self._metrics, self._state.plugin.compute_unit, self._state.scaling
        if metrics is None or unit is None:
            return None
        units = max(cpu_goal(metrics, scaling, unit), mem_goal(metrics, scaling, unit, self.plan.slot_bytes))
        return min(units, self._enough)

    # --- deciding and doing -------------------------------------------------------------------------------

    def _consider(self, now: int) -> None:
        """Ask the core and do what it says, until it has nothing, or someone's answer is waited for."""
        if self._metrics is not self._state.metrics:
            self._apply(MetricsArrived(self._metrics))
        while True:
            actions = next_actions(self._state, Millis(now))
            if actions.desired is not None:
                self.desired = actions.desired
            if not actions.has_requests:
                break
            if not self._perform(now, actions):
                return
        self._quiet_units = self._units()
        self._rest = self._begin_rest(now, actions)
        if self._rest is not None:
            self._wake_at = None
        elif actions.wait is not None:
            self._wake(now + actions.wait)

    def _wake(self, at: int) -> None:
        if at != self._wake_at:
            self._wake_at = at
            self._schedule(at, Due.ASK_CORE)

    def _perform(self, now: int, actions: ActionSet) -> bool:
        """Begin the first action; whether the core can be asked again at once."""
        at, delays = Millis(now), self._control.delays
        if actions.plugin is not None:
            self._asked = actions.plugin.target
            self._apply(PluginStarting(at, self._asked))
            # A mere tick for what is granted already is answered at once: nothing depends on its delay.
            is_tick = self._asked == self._state.plugin.permit
            return self._await(now, 0 if is_tick else delays.permit, Due.PERMIT)
        if actions.platform is not None:
            self._apply(PlatformStarting(actions.platform.target))
            self._schedule(now + delays.resize, Due.RESIZED)
            return True
        if actions.monitor_upscale is not None:
            self._apply(MonitorStartingUpscale(at, actions.monitor_upscale.target))
            return self._await(now, delays.monitor, Due.UPSCALE_TOLD)
        if actions.monitor_downscale is not None:
            self._asked = actions.monitor_downscale.target
            self._apply(MonitorStartingDownscale(at, self._asked))
            return self._await(now, delays.monitor, Due.DOWNSCALE_ASKED)
        return False

    def _await(self, now: int, delay: int, due: Due) -> bool:
        if delay == 0:
            self._finish(now, due)
            return True
        self._busy = True
        self._schedule(now + delay, due)
        return False

    def _finish(self, now: int, due: Due) -> None:
        """The answer to what was asked."""
        at, rates = Millis(now), self._control.rates
        match due:
            case Due.PERMIT:
                self._apply(PluginFailed(at) if self._fails("permit", rates.permit) else self._permit(now))
            case Due.RESIZED:
                self._resize(now, is_failed=self._fails("resize", rates.resize))
            case Due.UPSCALE_TOLD:
                is_failed = self._fails("monitor", rates.monitor)
                self._apply(MonitorUpscaleFailed(at) if is_failed else MonitorUpscaleSuccessful())
            case Due.DOWNSCALE_ASKED:
                is_failed = self._fails("monitor", rates.monitor)
                self._apply(MonitorDownscaleFailed(at) if is_failed else self._judge(now))
            case Due.ASK_CORE | Due.POLL:
                raise ValueError(f"{due.name} is no answer")

    def _permit(self, now: int) -> Event:
        permit = self._book.ask(self.plan.name, self._asked, now)
        self._seen_version = self._book.version
        if permit is None:
            self.counts.failures += 1
            return PluginFailed(Millis(now))
        if self._asked.has_field_above(permit):
            self.counts.permits_cut += 1
        return PluginSuccessful(Millis(now), permit, self._control.unit)

    def _resize(self, now: int, *, is_failed: bool) -> None:
        size = self._state.platform.ongoing
        if is_failed or size is None:
            self._apply(PlatformFailed(Millis(now)))
            return
        self.counts.resized(self.guest.granted, size)
        self.guest.resize(now, size)
        self._book.resized(self.plan.name, size)
        self._apply(PlatformSuccessful())

    def _judge(self, now: int) -> Event:
        if self.guest.is_content_with(self._asked) and not self._draw("denial", self._control.rates.denial):
            return MonitorDownscaleAllowed()
        self.counts.denied += 1
        return MonitorDownscaleDenied(Millis(now))

    def _apply(self, event: Event) -> None:
        self._state = apply(self._state, event).state

    # --- resting ------------------------------------------------------------------------------------------

    def _begin_rest(self, now: int, actions: ActionSet) -> Rest | None:
        """The rest that can be played without the core; none where chance may interfere."""
        rates, units = self._control.rates, self._quiet_units
        if rates.permit or units is None:
            return None
        rest = begin_rest(self._state, now, actions, self._control.delays)
        if rest is not None and rest.wanted is not None and self._seen_version != self._book.version:
            return None
        denied = self._state.monitor.denied_downscale
        if rest is None or rest.denied_at is None or denied is None:
            return rest
        if rates.monitor or rates.denial or downscale_to_come(self._state, units) != denied.requested:
            return None
        is_denied_for_memory = not self.guest.is_content_with(denied.requested)
        return rest if is_denied_for_memory and denied.current == self.guest.granted else None

    def _stir(self, now: int) -> None:
        """End a rest before what comes due now; it may begin anew after that."""
        if self._rest is None:
            return
        rest = self._end_rest(self._rest, now)
        if not self._busy:
            self._wake(rest.next_due())

    def _end_rest(self, rest: Rest, until: int) -> Rest:
        """Play the rest up to `until` and tell the core what it came to."""
        rest.play(until)
        self._rest, self._quiet_units = None, None
        self.counts.denied += rest.denials
        self.counts.permits_cut += rest.cuts
        state = self._state
        if state.plugin.last_request is not None and rest.ticked_at != state.plugin.last_request.at:
            at, self._asked = Millis(rest.ticked_at), rest.wanted or self.guest.granted
            self._apply(PluginStarting(at, self._asked))
            if rest.is_permit_awaited:
                self._busy = True
                self._schedule(rest.ticked_at + rest.delays.permit, Due.PERMIT)
            else:
                self._apply(PluginSuccessful(at, self.guest.granted, self._control.unit))
        denied = state.monitor.denied_downscale
        if rest.denied_at is not None and denied is not None:
            if rest.denials:
                at = Millis(rest.denied_at)
                self._apply(MonitorStartingDownscale(at, denied.requested))
                self._apply(MonitorDownscaleDenied(at))
            if rest.asked_at is not None:
                self._asked = denied.requested
                self._apply(MonitorStartingDownscale(Millis(rest.asked_at), self._asked))
                self._busy = True
                self._schedule(rest.asked_at + rest.delays.monitor, Due.DOWNSCALE_ASKED)
        return rest

    # --- chance -------------------------------------------------------------------------------------------

    def _fails(self, what: str, rate: float) -> bool:
        if not self._draw(what, rate):
            return False
        self.counts.failures += 1
        return True

    def _draw(self, what: str, rate: float) -> bool:
        if rate <= 0:
            return False
        self._draws += 1
        return noise(self._control.seed, self.plan.name, what, self._draws) < rate
