"""The built-in scheduler that is in charge, found in the registry of processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from app.ports.peers import SchedulerInfo
from app.ports.registry import AgentRecord, AgentRegistry
from app.ports.runtime import Clock, Monotonic

SWITCH_PAUSE_S = 5.0
"""A new scheduler takes over no sooner than this after the last switch (`spec/scheduler-protocol.md`)."""


class RegistrySchedulerWatch:
    """The `SchedulerWatch` of fleets that run `vmscaler scheduler`.

    Of several live ones the newest is in charge, for all workers alike: the older one is a process that was
    killed and whose entry has not ended yet, or is about to be replaced.
    """

    def __init__(self, registry: AgentRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._chosen: SchedulerInfo | None = None
        self._switched_at: Monotonic | None = None

    def current(self) -> SchedulerInfo | None:
        """See `SchedulerWatch.current`.

        Raises:
            StoreUnavailable: the registry can't be read; whoever was in charge stays.
        """
        live = _schedulers(self._registry.list())
        newest = max(live, key=lambda each: (each.started_ms, each.info.uid), default=None)
        if newest is not None and newest.info != self._chosen and self._may_switch():
            self._chosen = newest.info
            self._switched_at = self._clock.monotonic()
        is_live = any(each.info == self._chosen for each in live)
        return self._chosen if is_live else None

    def _may_switch(self) -> bool:
        return self._switched_at is None or self._clock.monotonic() - self._switched_at >= SWITCH_PAUSE_S


@dataclass(frozen=True, slots=True)
class _Entry:
    info: SchedulerInfo
    started_ms: int


def _schedulers(records: Sequence[AgentRecord]) -> list[_Entry]:
    """The schedulers among the entries; what is not one, or can't be read, is passed over."""
    return [entry for record in records if (entry := _read(record.facts)) is not None]


def _read(facts: bytes) -> _Entry | None:
    try:
        found = json.loads(facts)
    except (ValueError, RecursionError):
        return None
    match found:
        case {
            "kind": "scheduler",
            "uid": str(uid),
            "url": str(url),
            "name": str(name),
            "started_ms": int(started_ms),
        } if url.startswith(("http://", "https://")):
            return _Entry(SchedulerInfo(name=name, uid=uid, url=url), started_ms)
        case _:
            return None
