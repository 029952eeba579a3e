"""The connection to a VM's monitor: dial, tell the core, watch it end, dial again, for ever.

One job per VM, which also receives. A connection's callbacks carry its generation: what belongs to an earlier
connection must not touch the core.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.core.events import MonitorActive, MonitorReset, MonitorUpscaleRequested
from app.errors import OwnershipLost, PeerError, PeerUnreachable
from app.ports.agent_metrics import MONITOR_INBOUND
from app.ports.log_context import log_context
from app.ports.peers import DownscaleAnswer, MonitorCallbacks, MonitorConnector, MonitorSession
from app.ports.runtime import Clock, Concurrency, Job
from app.ports.vm import Address
from app.services.agent_settings import AgentSettings
from app.services.guarding import Guard
from app.services.runner import Runner
from app.services.turnstile import Turnstile

logger = logging.getLogger(__name__)

UPSCALE_REQUEST_GAP_S = 1.0
"""At most one of a guest's requests for memory goes on in this time."""

JITTER = 0.2
"""Of the pause before dialling again, at most so much is added."""


class MonitorLink:
    """Keeps one VM's monitor connected while its bucket is held.

    Attributes:
        is_dialling: a connection is being made right now.
        may_dial: False once the worker ends.

    Args:
        guard: the bucket's lease; nothing is begun without it.
        changed: called when the core should be asked again.
        dials: where all links of a worker wait for their turn.
        spread: between 0 and 1, the VM's own; spreads the redials of a fleet whose hosts went away together.
    """

    def __init__(
        self,
        runner: Runner,
        connector: MonitorConnector,
        guard: Callable[[], Guard],
        runtime: tuple[Clock, Concurrency],
        changed: Callable[[Runner], None],
        dials: Turnstile,
        spread: float,
    ) -> None:
        self._runner = runner
        self._connector = connector
        self._guard = guard
        self._clock, self._concurrency = clock, concurrency = runtime
        self._changed = changed
        self._dials = dials
        self._spread = spread
        self._settings: AgentSettings = runner.settings
        self._session: MonitorSession | None = None
        self.is_dialling = False
        self.may_dial = True
        self.generation = 0
        self._stop = concurrency.signal()
        self._job: Job | None = None
        self._last_problem = ""
        # When the connection was made; while there is none, when it was dialled last.
        self._begun = clock.monotonic()

    def start(self) -> None:
        """Begin to dial; called once."""
        self._job = self._concurrency.spawn(f"monitor {self._runner.key}", self._run)

    def stop(self) -> None:
        """End the connection for good, without waiting for the job."""
        self._stop.set()
        session, self._session = self._session, None
        self.generation += 1
        if session is not None:
            self._concurrency.spawn(f"close monitor {self._runner.key}", session.close)

    @property
    def is_connected(self) -> bool:
        """Whether the connection stands."""
        return self._session is not None

    @property
    def waiters_size(self) -> int:
        """Calls that wait for an answer, for the state dump."""
        return 0 if self._session is None else self._session.waiters_size

    def downscale(self, target_generation: int, *, timeout_s: float) -> DownscaleAnswer:
        """Ask the monitor of that generation for the downscale that its core has begun."""
        session, request = self._live(target_generation), self._runner.state.monitor.ongoing
        if request is None:
            raise PeerUnreachable(self._runner.key, "no downscale is under way")
        return session.downscale(request.resources, self._runner.vm.slot_bytes, timeout_s=timeout_s)

    def upscale(self, target_generation: int, *, timeout_s: float) -> None:
        """Tell the monitor of that generation of the upscale that its core has begun."""
        session, request = self._live(target_generation), self._runner.state.monitor.ongoing
        if request is None:
            raise PeerUnreachable(self._runner.key, "no upscale is under way")
        session.upscale(request.resources, self._runner.vm.slot_bytes, timeout_s=timeout_s)

    def _live(self, generation: int) -> MonitorSession:
        if self._session is None or generation != self.generation:
            raise PeerUnreachable(self._runner.key, "the connection to the monitor is gone")
        return self._session

    def _run(self) -> None:
        while not self._stop.is_set():
            self._begun = self._clock.monotonic()
            address = self._runner.vm.monitor_address
            if address is not None and not self._runner.vm.migrating:
                try:
                    with log_context(vm=self._runner.key):
                        self._connect_and_serve(address)
                except Exception:
                    logger.exception("monitor link failed", extra={"vm": self._runner.key})
            pause = self._settings.monitor_retry_min_wait_s - (self._clock.monotonic() - self._begun)
            if pause > 0:
                # A floor: the jitter is on top of it.
                self._stop.wait(pause * (1.0 + JITTER * self._spread))

    def _connect_and_serve(self, address: Address) -> None:
        with self._dials.turn():
            session = self._dial(address)
        if session is None:
            return
        generation = self.generation
        self._session = session
        self._begun = self._clock.monotonic()
        try:
            self._say("connected")
            self._runner.monitor_answered()
            self._runner.apply(MonitorActive(True))
            self._changed(self._runner)
            session.serve(lambda: not self._stop.is_set() and self._runner.vm.monitor_address == address)
        finally:
            # Nothing to do after `serve`; where it was never reached, nobody else would close it.
            session.close()
            self._forget(generation)

    def _dial(self, address: Address) -> MonitorSession | None:
        """A connection of a new generation; None where there is none, or it is not wanted any more."""
        runner = self._runner
        has_moved = runner.vm.monitor_address != address or runner.vm.migrating
        if self._stop.is_set() or has_moved or runner.is_leaving or not self.may_dial:
            return None
        self._begun = self._clock.monotonic()
        self.generation += 1
        generation = self.generation
        callbacks = MonitorCallbacks(
            on_upscale_request=lambda: self._upscale_requested(generation),
            on_success=lambda: self._answered(generation),
            on_exit=lambda reason: self._exited(generation, reason),
        )
        try:
            timeout_s = self._guard().limit_s(self._settings.monitor_connect_timeout_s)
            self.is_dialling = True
            session = self._connector.connect(address, callbacks, timeout_s=timeout_s)
        except OwnershipLost:
            return None
        except PeerError as err:
            self._say(f"no connection: {err}")
            return None
        finally:
            self.is_dialling = False
        if self._stop.is_set() or session.exited or generation != self.generation:
            session.close()
            return None
        return session

    def _upscale_requested(self, generation: int) -> None:
        runner = self._runner
        if generation != self.generation or not runner.state.monitor.is_active:
            MONITOR_INBOUND.add("UpscaleRequest", "not_active")
            return
        runner.monitor_answered()
        now, last = self._clock.monotonic(), runner.last_upscale_request
        if last is not None and now - last < UPSCALE_REQUEST_GAP_S:
            MONITOR_INBOUND.add("UpscaleRequest", "too_many")
            return
        MONITOR_INBOUND.add("UpscaleRequest", "ok")
        runner.last_upscale_request = now
        valid_s = self._settings.core.monitor_requested_upscale_valid_period / 1000
        if last is None or now - last > max(valid_s, UPSCALE_REQUEST_GAP_S):
            # One that goes on asking is still in the state that was told.
            runner.audit.add("upscale_requested", why="the guest asks for memory")
            logger.info("guest asks for memory", extra={"vm": runner.key})
        runner.apply(MonitorUpscaleRequested(runner.now(), cpu=False, memory=True))
        self._changed(runner)

    def _answered(self, generation: int) -> None:
        if generation == self.generation:
            self._runner.monitor_answered()

    def _exited(self, generation: int, reason: str) -> None:
        if generation == self.generation:
            self._say(f"disconnected: {reason}")

    def _forget(self, generation: int) -> None:
        if generation != self.generation:
            return
        self._session = None
        self.generation += 1
        if not self._runner.is_closed:
            self._runner.apply(MonitorReset())
            self._changed(self._runner)

    def _say(self, what: str) -> None:
        """Log once per distinct state, not per try."""
        if what != self._last_problem:
            self._last_problem = what
            logger.info("monitor", extra={"vm": self._runner.key, "state": what[:200]})
