"""What an operator can look at: the fleet, a VM, its last decision explained, its audit trail.

Reads only; a bucket's records come in one call. Works beside a running fleet and after it has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from app.core.model import Millis
from app.errors import InvalidInput, LeasesUnavailable, UsageError
from app.ports.registry import AgentRegistry
from app.ports.runtime import Clock
from app.ports.store import (
    BucketName,
    FencingToken,
    IntentStore,
    LeaseReader,
    LeaseRow,
    LeaseView,
    StateStore,
)
from app.ports.vm import VmKey
from app.protocols.printable import printable
from app.services.agent_facts import AgentRow, read_agent
from app.services.explanation import VmExplanation, explain_vm
from app.services.fleet_health import Seen, find_problems
from app.services.fleet_view import FleetView, VmRow, add_up
from app.services.naming import resolve_name
from app.services.vm_record import AuditEntry, VmRecord, read_audit_entry, read_record
from app.services.vm_row import build_row

MAX_AUDIT = 10_000
"""Entries that one look at an audit trail may ask for."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where everything is read from."""

    states: StateStore
    leases: LeaseReader
    agents: AgentRegistry
    intents: IntentStore
    clock: Clock


@dataclass(frozen=True, slots=True)
class Buckets:
    """The fleet's division: all names in order, and the owner of a key among them."""

    names: tuple[BucketName, ...]
    owner: Callable[[VmKey], BucketName]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of an audit trail; `entry` is None where what is stored can't be read."""

    at_ms: int
    entry: AuditEntry | None


@dataclass(frozen=True, slots=True)
class VmView:
    """One VM: its row, its record, and who holds its bucket now."""

    row: VmRow
    record: VmRecord
    lease: LeaseRow | None
    now_ms: Millis


class Inspection:
    """The reader behind `status`, `vm`, `explain`, `events` and the demo's screen.

    Every call may raise `StoreUnavailable`.
    """

    def __init__(self, sources: Sources, buckets: Buckets, *, poll_period_s: float) -> None:
        self._sources = sources
        self._buckets = buckets
        self._period_ms = round(poll_period_s * 1000)

    @property
    def buckets(self) -> tuple[BucketName, ...]:
        """All buckets, by name."""
        return self._buckets.names

    def now(self) -> Millis:
        """The clock that ages are told by."""
        return self._sources.clock.wall_ms()

    def bucket_of(self, key: VmKey) -> BucketName:
        """The bucket that a VM belongs to."""
        return self._buckets.owner(key)

    def keys(self) -> tuple[VmKey, ...]:
        """All VMs that have a record, sorted."""
        return tuple(sorted(key for bucket in self.buckets for key in self._sources.states.load(bucket)))

    def resolve(self, name: str) -> VmKey:
        """The VM that an operator means by `namespace/name`, or by a name that only one VM has.

        Raises:
            UsageError: none or several, with the candidates; or another number of buckets is in force.
        """
        self.check_total()
        if "/" in name and VmKey(name) in self._sources.states.load(self.bucket_of(VmKey(name))):
            return VmKey(name)
        return resolve_name(name, self.keys())

    def fleet_view(self) -> FleetView:
        """The whole fleet at this moment."""
        now = self._sources.clock.wall_ms()
        rows: list[VmRow] = []
        unreadable: list[tuple[str, str]] = []
        for bucket in self.buckets:
            for key, raw in self._sources.states.load(bucket).items():
                try:
                    rows.append(build_row(read_record(key, raw), now))
                except InvalidInput as error:
                    unreadable.append((key, str(error)))
        rows.sort(key=lambda row: row.key)
        view, lease_problem = self._lease_view()
        leases = tuple(sorted(view.leases.values(), key=lambda row: row.bucket))
        agents = tuple(sorted(self.agents(view.draining), key=lambda row: (row.kind, row.name, row.agent_id)))
        last_poll = max(
            (row.sample.tried_ms for row in rows if row.sample.tried_ms is not None), default=None
        )
        seen = Seen(
            now=now,
            total=len(self.buckets),
            stored_total=self._sources.leases.stored_total(),
            leases=leases,
            agents=agents,
            rows=rows,
            unreadable=unreadable,
            last_poll_ms=last_poll,
            period_ms=self._period_ms,
            silence_ms=view.silence_ms,
            is_read_only=view.is_read_only,
            lease_problem=lease_problem,
        )
        totals, counters = add_up(rows)
        problems = find_problems(seen)
        return FleetView(now, tuple(rows), agents, leases, totals, counters, last_poll, problems)

    def agents(self, draining: Collection[str] | None = None) -> tuple[AgentRow, ...]:
        """Live processes in the order of their registration.

        Args:
            draining: agent ids that drain, where they are known already.
        """
        if draining is None:
            draining = self._lease_view()[0].draining
        return tuple(read_agent(record, draining) for record in self._sources.agents.list())

    def vm_view(self, key: VmKey) -> VmView:
        """One VM.

        Raises:
            UsageError: it has no record.
            InvalidInput: its record can't be read.
        """
        now = self._sources.clock.wall_ms()
        bucket = self.bucket_of(key)
        record = self._record(key)
        return VmView(build_row(record, now), record, self._lease_view()[0].leases.get(bucket), now)

    def slot_bytes(self, key: VmKey) -> int | None:
        """The size of a VM's memory slot; None where its record is gone or can't be read."""
        try:
            return self._record(key).platform.slot_bytes
        except (UsageError, InvalidInput):
            return None

    def explain(self, key: VmKey) -> VmExplanation:
        """The last decision, computed anew from the record: inputs, arithmetic, what held it back.

        Raises:
            UsageError: it has no record.
            InvalidInput: its record can't be read.
        """
        view = self.vm_view(key)
        standing = self._sources.intents.list(self.bucket_of(key))
        found = explain_vm(view.record, view.row, view.lease, standing, view.now_ms)
        by = [agent.name for agent in self.agents() if key in agent.left_alone]
        if by:
            told = f"left alone by {by[0]}: a newer version than its own wrote the record (docs/upgrading.md)"
            return replace(found, obstacles=(told, *found.obstacles))
        problems = [what for agent in self.agents() for name, what in agent.unreadable if name == key]
        if problems:
            told = f"its description can't be read any more, so no size is asked for: {problems[0]}"
            return replace(found, obstacles=(told, *found.obstacles))
        return found

    def audit(self, key: VmKey, limit: int) -> Sequence[AuditLine]:
        """The newest `limit` entries (at most 10,000) of a VM's audit trail, oldest first."""
        lines = []
        for at_ms, raw in self._sources.states.events(self.bucket_of(key), key, min(limit, MAX_AUDIT)):
            try:
                entry = read_audit_entry(raw)
            except InvalidInput:
                entry = None
            lines.append(AuditLine(at_ms, entry))
        return lines

    def _record(self, key: VmKey) -> VmRecord:
        raw = self._sources.states.read(self.bucket_of(key), key)
        if raw is None:
            raise UsageError(f"unknown VM {printable(key)}")
        return read_record(key, raw)

    def _lease_view(self) -> tuple[LeaseView, str]:
        """All leases; where an API server that has them is away: none, and why. The rest is shown."""
        try:
            return self._sources.leases.view(), ""
        except LeasesUnavailable as err:
            rows = {name: LeaseRow(name, None, FencingToken(0), 0) for name in self.buckets}
            return LeaseView(rows, (), frozenset(), self._sources.clock.wall_ms()), str(err)

    def check_total(self) -> None:
        """Refuse to look for VMs where they can't be.

        Raises:
            UsageError: the configuration has another number of buckets than the fleet.
        """
        stored = self._sources.leases.stored_total()
        if stored is not None and stored != len(self.buckets):
            raise UsageError(
                f"the configuration says {len(self.buckets)} buckets, the fleet has {stored}: "
                "use the configuration file of the fleet"
            )
