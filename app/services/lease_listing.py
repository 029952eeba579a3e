"""All buckets with their leases, as `vmscaler leases` shows them; also why nobody holds one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ports.store import BucketName, LeaseReader, LeaseRow, LeaseView, StateStore, TickReader
from app.services.wording import span_text


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """One bucket.

    Attributes:
        vms: that have a record.
        last_tick_ms: when its last turn to be polled was, Unix ms by Redis' clock; None: never.
        note: why nobody holds it, or what is wrong with its holder; empty as a rule.
    """

    lease: LeaseRow
    vms: int
    last_tick_ms: int | None
    note: str


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """All buckets, by name; `now_ms` is Redis' clock, by which all times of the lines are told."""

    now_ms: int
    silence_ms: int
    lines: tuple[LeaseLine, ...]


class LeaseListing:
    """Reads the table; writes nothing. Calls may raise `StoreUnavailable`."""

    def __init__(
        self, leases: LeaseReader, states: StateStore, ticks: TickReader, names: Sequence[BucketName]
    ) -> None:
        self._leases = leases
        self._states = states
        self._ticks = ticks
        self._names = tuple(names)

    def table(self) -> LeaseTable:
        """All buckets at this moment."""
        view = self._leases.view()
        turns = self._ticks.last_turns(len(self._names))
        lines = tuple(
            LeaseLine(view.leases[name], len(self._states.load(name)), turn, _note(view.leases[name], view))
            for name, turn in zip(self._names, turns, strict=True)
        )
        return LeaseTable(view.redis_ms, view.silence_ms, lines)


def _note(lease: LeaseRow, view: LeaseView) -> str:
    if lease.holder is not None:
        if lease.holder.agent_id not in view.live_agents:
            return f"no heartbeat of its holder; free in {span_text(lease.remaining_ms)}"
        return "being handed over: its holder drains" if lease.holder.agent_id in view.draining else ""
    if view.is_read_only:
        return "Redis is a read-only replica: nobody can take it"
    if view.silence_ms:
        left = span_text(view.silence_ms)
        return f"nobody takes it for another {left}: an older lease may still be believed in"
    if not view.live_agents:
        return "no live worker"
    if not view.takers:
        return "all live workers drain"
    return "free: a live worker takes it at its next look"
