"""The monitor connections of all runners: begun, kept and left as mode, policy and intents say."""

from __future__ import annotations

from collections.abc import Callable

from app.core.events import MonitorReset
from app.ports.peers import MonitorConnector
from app.ports.runtime import Clock, Concurrency
from app.ports.vm import MonitorPolicy
from app.services.guarding import Guards
from app.services.monitor_link import MonitorLink
from app.services.runner import Runner
from app.services.spreading import spread
from app.services.turnstile import Turnstile

DIALS_AT_ONCE = 8
"""Connections that are being made, those not counted whose peer is slow; fewer than polls, which go first."""


class MonitorLinks:
    """One connection for each VM that is to have one.

    Args:
        changed: called with a runner whose core should be asked again.
    """

    def __init__(
        self,
        connector: MonitorConnector,
        guards: Guards,
        clock: Clock,
        concurrency: Concurrency,
        changed: Callable[[Runner], None],
    ) -> None:
        self._connector = connector
        self._guards = guards
        self._runtime = clock, concurrency
        self._dials = Turnstile(clock, concurrency, DIALS_AT_ONCE)
        self._changed = changed
        self._links: dict[str, tuple[Runner, MonitorLink]] = {}

    def give_way(self, must: Callable[[], bool]) -> None:
        """Dials let polls go first while this is so; called once, before anything runs."""
        self._dials.give_way(must)

    def of(self, runner: Runner) -> MonitorLink | None:
        """The connection of this very runner."""
        owner, link = self._links.get(runner.key, (None, None))
        return link if owner is runner else None

    @property
    def connected(self) -> int:
        """How many of the connections stand."""
        return sum(link.is_connected for _, link in self._links.values())

    def adjust(self, runner: Runner) -> None:
        """Connect to the VM's monitor, or leave it; called whenever what decides that may have changed."""
        link = self.of(runner)
        if link is not None and not _wants_link(runner):
            self.leave(runner)
            runner.apply(MonitorReset())
        elif link is None and _wants_link(runner):
            link = MonitorLink(
                runner,
                self._connector,
                lambda: self._guards.guard(runner.bucket),
                self._runtime,
                self._changed,
                self._dials,
                spread(runner.key),
            )
            self._links[runner.key] = runner, link
            link.start()

    def is_dialling(self, runner: Runner) -> bool:
        """Whether the runner's monitor is being connected to right now."""
        link = self.of(runner)
        return link is not None and link.is_dialling

    def dial_no_more(self) -> None:
        """No connection is begun from now on; those that stand go on."""
        for _, link in self._links.values():
            link.may_dial = False

    def leave(self, runner: Runner) -> None:
        """End the runner's connection for good, if it has one."""
        link = self.of(runner)
        if link is not None:
            del self._links[runner.key]
            link.stop()


def _wants_link(runner: Runner) -> bool:
    return (
        runner.vm.monitor is MonitorPolicy.REQUIRED
        and runner.vm.monitor_address is not None
        and runner.is_ready
        and runner.has_intents
        and not runner.is_observed
        and not runner.is_closed
        and (runner.informant is None or runner.informant.needs_peers)
    )
