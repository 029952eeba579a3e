"""The meters of one held bucket: in memory ahead of Redis by one step at most.

Notes and the events made of them are handed over in numbered steps. While a step has no answer nothing new is
noted: it is said again until there is one. So a process that is killed anywhere leaves in Redis what all its
events add up to, and a new owner goes on from there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import InvalidInput, NewerVersion
from app.metering.meter import (
    Meter,
    MeterId,
    Slice,
    Usage,
    begin_meter,
    close_window,
    is_all_told,
    note,
    slice_between,
    with_sinks,
)
from app.metering.stored import decode_meter, encode_meter, id_field, parse_id_field
from app.ports.billing import BillingStep, BillingStore, StoredMeters
from app.ports.stats import StatJournal
from app.ports.store import BucketName, FencingToken
from app.services.usage_events import UsageEvents

logger = logging.getLogger(__name__)

METERS_A_STEP = 100
"""Meters in one call of the script; more would hold up Redis, and this process between two calls."""

MAX_ENDED = 10_000
"""Meters of VMs that are gone and can't be told of yet; the oldest are dropped beyond that, and counted."""


EventPair = tuple[bytes, bytes]
"""The two events of a window."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by both clocks: Unix milliseconds, and milliseconds on the monotonic one."""

    wall_ms: int
    mono_ms: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the platform has told lately of the VMs of a bucket.

    Attributes:
        cpus: milli-vCPU of each that is billed; None where it reports none.
        unreadable: keys of VMs that are there and can't be read: nothing is known of them.
    """

    cpus: Mapping[MeterId, int | None]
    unreadable: Collection[str] = ()

    def knows(self, identity: MeterId) -> bool:
        """Whether it was seen, or seen to be gone."""
        return identity in self.cpus or identity.key not in self.unreadable

    def lacks(self, identity: MeterId) -> bool:
        """Whether it was seen to be gone."""
        return identity not in self.cpus and identity.key not in self.unreadable


@dataclass(frozen=True, slots=True)
class MeterRules:
    """What holds for every bucket.

    Attributes:
        sinks: names of those that events go to.
        max_gap_ms: between two notes; more is not billed.
        max_waiting: events in an outbox; a full one lets windows grow longer.
    """

    sinks: tuple[str, ...]
    max_gap_ms: int
    max_waiting: int


class BucketMeters:
    """One bucket's part of billing.

    Attributes:
        waiting: events in each sink's outbox, as of the last answer.
        dropped: meters given up, see `MAX_ENDED`.
        left_alone: VMs whose meters a newer version wrote.
    """

    def __init__(
        self,
        bucket: BucketName,
        token: FencingToken,
        store: BillingStore,
        rules: MeterRules,
        journal: StatJournal | None = None,
    ) -> None:
        self._bucket, self._token = bucket, token
        self._store = store
        self._rules = rules
        self._journal = journal
        self._meters: dict[MeterId, Meter] = {}
        self._noted_mono: dict[MeterId, int] = {}
        self._fields: dict[MeterId, str] = {}
        self._pending: deque[BillingStep] = deque()
        self._step = 0
        self._is_loaded = False
        self._loads = 0
        self._last_seen: Seen | None = None
        self.waiting: dict[str, int] = dict.fromkeys(rules.sinks, 0)
        self.left_alone: set[MeterId] = set()
        self.dropped = 0

    def settle(self) -> None:
        """Have Redis and memory say the same.

        Raises:
            OwnershipLost: the bucket has a newer owner.
            StoreUnavailable: try again before anything else.
        """
        while self._pending:
            waiting = self._store.commit(self._bucket, self._token, self._pending[0], self._rules.sinks)
            if waiting is None:
                logger.error("billing steps lost by Redis; read again", extra={"bucket": self._bucket})
                self._pending.clear()
                self._is_loaded = False
                break
            self._pending.popleft()
            self.waiting.update(waiting)
        if not self._is_loaded:
            self._take(self._store.load(self._bucket, self._rules.sinks))

    def advance(self, moment: Moment, seen: Seen | None, events: UsageEvents | None) -> None:
        """Note what was seen, and end the windows, step by step. Call `settle` before.

        Args:
            seen: None: nothing new is known, so nothing is noted.
            events: makes the events of the windows that end now; None: they go on.

        Raises:
            OwnershipLost: the bucket has a newer owner.
            StoreUnavailable: what was noted is kept for the next `settle`; the rest waits for the next turn.
        """
        if events is not None:
            self._ask_for_room()
        # What is gone stays gone while the platform is silent, as it is once nothing changes any more.
        self._last_seen = last = self._last_seen if seen is None else seen
        listed = () if seen is None else seen.cpus
        everything = list(dict.fromkeys([*listed, *self._meters]))
        loads = self._loads
        for start in range(0, len(everything), METERS_A_STEP):
            part = everything[start : start + METERS_A_STEP]
            changed = {} if seen is None else self._note_part(part, moment, seen)
            made = {} if events is None else self._close_part(part, events, changed)
            gone = self._ended(part, last) if events is not None and last is not None else []
            if changed or gone:
                self._plan(changed, made, gone)
                self.settle()
            if self._loads != loads:
                return
        if events is not None and last is not None:
            self._drop_surplus(last)

    # --- noting -------------------------------------------------------------------------------------------

    def _note_part(self, part: Sequence[MeterId], moment: Moment, seen: Seen) -> dict[MeterId, Slice | None]:
        changed: dict[MeterId, Slice | None] = {}
        for identity in part:
            if identity in self.left_alone:
                continue
            before, cpu = self._meters.get(identity), seen.cpus.get(identity)
            if before is None:
                if cpu is None:
                    continue
                after = begin_meter(moment.wall_ms, cpu, self._rules.sinks)
            elif (cpu is None and before.noted is None) or not seen.knows(identity):
                continue
            else:
                after = self._noted(identity, before, cpu, moment)
            self._meters[identity] = after
            self._noted_mono[identity] = moment.mono_ms
            changed[identity] = None if self._journal is None else slice_between(before or after, after)
        return changed

    def _noted(self, identity: MeterId, meter: Meter, cpu: int | None, moment: Moment) -> Meter:
        noted_mono = self._noted_mono.get(identity)
        # What an earlier owner noted last is known by its wall clock only.
        elapsed_ms = moment.wall_ms - meter.at_ms if noted_mono is None else moment.mono_ms - noted_mono
        return note(
            meter, cpu, elapsed_ms=elapsed_ms, now_ms=moment.wall_ms, max_gap_ms=self._rules.max_gap_ms
        )

    # --- windows ------------------------------------------------------------------------------------------

    def _ask_for_room(self) -> None:
        """A full outbox may have been emptied since the last step; a step without anything in it tells."""
        if any(length >= self._rules.max_waiting for length in self.waiting.values()):
            self._plan({}, {}, [])
            self.settle()

    def _close_part(
        self, part: Sequence[MeterId], events: UsageEvents, changed: dict[MeterId, Slice | None]
    ) -> dict[MeterId, dict[str, EventPair]]:
        """End each window whose sink has room; the two events of each meter and sink."""
        open_sinks = [name for name, length in self.waiting.items() if length < self._rules.max_waiting]
        closed: dict[tuple[MeterId, Usage], list[str]] = {}
        for identity in part:
            if identity not in self._meters:
                continue
            for sink in open_sinks:
                before = self._meters[identity]
                after, usage = close_window(before, sink)
                if after is not before:
                    self._meters[identity] = after
                    changed.setdefault(identity, None)
                if usage is not None:
                    closed.setdefault((identity, usage), []).append(sink)
        made: dict[MeterId, dict[str, EventPair]] = {}
        encoded = events.make([(identity.endpoint_id, usage) for identity, usage in closed])
        for ((identity, _), sinks), pair in zip(closed.items(), encoded, strict=True):
            made.setdefault(identity, {}).update(dict.fromkeys(sinks, pair))
        return made

    def _ended(self, part: Iterable[MeterId], seen: Seen) -> list[MeterId]:
        """Meters that are not needed any more: their VM is gone, and all sinks are told."""
        return [
            identity
            for identity in part
            if identity in self._meters and seen.lacks(identity) and is_all_told(self._meters[identity])
        ]

    def _drop_surplus(self, seen: Seen) -> None:
        """Of VMs that are gone and whose events find no room, the oldest beyond `MAX_ENDED`."""
        ended = [identity for identity in self._meters if seen.lacks(identity)]
        if len(ended) <= MAX_ENDED:
            return
        ended.sort(key=lambda identity: self._meters[identity].at_ms)
        surplus = ended[: min(len(ended) - MAX_ENDED, METERS_A_STEP)]
        self.dropped += len(surplus)
        logger.error(
            "usage of VMs that are gone dropped: no room for its events",
            extra={"bucket": self._bucket, "meters": len(surplus)},
        )
        self._plan({}, {}, surplus)
        self.settle()

    # --- steps --------------------------------------------------------------------------------------------

    def _plan(
        self,
        changed: Mapping[MeterId, Slice | None],
        made: Mapping[MeterId, Mapping[str, EventPair]],
        gone: Sequence[MeterId],
    ) -> None:
        """Make a step of what has changed: a meter and its events are in one. Nothing: an empty one."""
        self._step += 1
        self._write_journal(changed)
        away = set(gone)
        self._pending.append(
            BillingStep(
                number=self._step,
                meters={
                    self._field(identity): encode_meter(self._meters[identity])
                    for identity in changed
                    if identity not in away
                },
                gone=[self._field(identity) for identity in gone],
                events={
                    sink: [event for pairs in made.values() for event in pairs.get(sink, ())]
                    for sink in self._rules.sinks
                },
            )
        )
        for identity in gone:
            del self._meters[identity]
            self._noted_mono.pop(identity, None)
            self._fields.pop(identity, None)

    def _field(self, identity: MeterId) -> str:
        """Made once: it costs as much as the meter's text."""
        field = self._fields.get(identity)
        if field is None:
            field = self._fields[identity] = id_field(identity)
        return field

    def _write_journal(self, slices: Mapping[MeterId, Slice | None]) -> None:
        """Say what a step adds, before it is done; it was, unless its number comes again later."""
        if self._journal is None:
            return
        step = {"bucket": self._bucket, "token": self._token, "step": self._step}
        self._journal.write(**step, slices=sum(part is not None for part in slices.values()))
        for identity, part in slices.items():
            if part is not None:
                self._journal.write(**step, **identity._asdict(), **part._asdict())

    def _take(self, stored: StoredMeters) -> None:
        self._meters, self._noted_mono, self.left_alone = {}, {}, set()
        for identity, raw in _identified(stored.meters.items()):
            try:
                meter = decode_meter(raw, identity)
            except NewerVersion as err:
                self.left_alone.add(identity)
                logger.warning("VM not billed", extra={"vm": identity.key, "reason": str(err)})
                continue
            except InvalidInput as err:
                logger.error("meter begun anew", extra={"vm": identity.key, "reason": str(err)})
                continue
            self._meters[identity] = with_sinks(meter, self._rules.sinks)
        self._step = stored.step
        self.waiting = dict(stored.waiting)
        self._is_loaded = True
        self._loads += 1


def _identified(fields: Iterable[tuple[str, bytes]]) -> Iterable[tuple[MeterId, bytes]]:
    for field, raw in fields:
        try:
            yield parse_id_field(field), raw
        except InvalidInput as err:
            logger.error("meter left alone: nobody's", extra={"reason": str(err)})
