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

METERS_A_STEP = 250
"""Meters in one call of the script; larger calls hold Redis up."""

MAX_ENDED = 10_000
"""Meters of VMs that are gone and can't be told of yet; the oldest are dropped beyond that, and counted."""


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
        self._changed: dict[MeterId, Slice | None] = {}
        self._pending: deque[BillingStep] = deque()
        self._step = 0
        self._is_loaded = False
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
        """Note what was seen, and end the windows; then settle. Call `settle` before.

        Args:
            seen: None: nothing new is known, so nothing is noted.
            events: makes the events of the windows that end now; None: they go on.

        Raises:
            OwnershipLost: the bucket has a newer owner.
            StoreUnavailable: what was noted is kept for the next `settle`.
        """
        if seen is not None:
            self._note_all(moment, seen)
        made: dict[MeterId, dict[str, tuple[bytes, bytes]]] = {}
        gone: list[MeterId] = []
        if events is not None:
            self._ask_for_room()
            made = self._close_all(events)
            if seen is not None:
                gone = self._ended(seen)
        self._plan(made, gone)
        self.settle()

    # --- noting -------------------------------------------------------------------------------------------

    def _note_all(self, moment: Moment, seen: Seen) -> None:
        for identity, cpu in seen.cpus.items():
            if identity in self.left_alone:
                continue
            meter = self._meters.get(identity)
            if meter is None:
                if cpu is not None:
                    self._put(identity, None, begin_meter(moment.wall_ms, cpu, self._rules.sinks), moment)
            elif cpu is not None or meter.noted is not None:
                self._note(identity, meter, cpu, moment)
        for identity, meter in self._meters.items():
            is_gone = identity not in seen.cpus and identity.key not in seen.unreadable
            if is_gone and meter.noted is not None:
                self._note(identity, meter, None, moment)

    def _note(self, identity: MeterId, meter: Meter, cpu: int | None, moment: Moment) -> None:
        noted_mono = self._noted_mono.get(identity)
        # What an earlier owner noted last is known by its wall clock only.
        elapsed_ms = moment.wall_ms - meter.at_ms if noted_mono is None else moment.mono_ms - noted_mono
        after = note(
            meter, cpu, elapsed_ms=elapsed_ms, now_ms=moment.wall_ms, max_gap_ms=self._rules.max_gap_ms
        )
        self._put(identity, meter, after, moment)

    def _put(self, identity: MeterId, before: Meter | None, after: Meter, moment: Moment) -> None:
        self._meters[identity] = after
        self._noted_mono[identity] = moment.mono_ms
        self._changed[identity] = slice_between(before or after, after)

    # --- windows ------------------------------------------------------------------------------------------

    def _ask_for_room(self) -> None:
        """A full outbox may have been emptied since the last step; a step without anything in it tells."""
        if any(length >= self._rules.max_waiting for length in self.waiting.values()):
            self._step += 1
            self._write_journal({})
            self._pending.append(BillingStep(self._step))
            self.settle()

    def _close_all(self, events: UsageEvents) -> dict[MeterId, dict[str, tuple[bytes, bytes]]]:
        """End each window whose sink has room; the two events of each meter and sink."""
        open_sinks = [name for name, length in self.waiting.items() if length < self._rules.max_waiting]
        closed: dict[tuple[MeterId, Usage], list[str]] = {}
        for identity in list(self._meters):
            for sink in open_sinks:
                before = self._meters[identity]
                after, usage = close_window(before, sink)
                if after is not before:
                    self._meters[identity] = after
                    self._changed.setdefault(identity, None)
                if usage is not None:
                    closed.setdefault((identity, usage), []).append(sink)
        made: dict[MeterId, dict[str, tuple[bytes, bytes]]] = {}
        encoded = events.make([(identity.endpoint_id, usage) for identity, usage in closed])
        for ((identity, _), sinks), pair in zip(closed.items(), encoded, strict=True):
            made.setdefault(identity, {}).update(dict.fromkeys(sinks, pair))
        return made

    def _ended(self, seen: Seen) -> list[MeterId]:
        """Meters that are not needed any more: their VM is gone, and all sinks are told."""
        ended = [
            identity
            for identity in self._meters
            if identity not in seen.cpus and identity.key not in seen.unreadable
        ]
        told = [identity for identity in ended if is_all_told(self._meters[identity])]
        untold = sorted(set(ended) - set(told), key=lambda identity: self._meters[identity].at_ms)
        surplus = untold[: max(len(untold) - MAX_ENDED, 0)]
        if surplus:
            self.dropped += len(surplus)
            logger.error(
                "usage of VMs that are gone dropped: no room for its events",
                extra={"bucket": self._bucket, "meters": len(surplus)},
            )
        return told + surplus

    # --- steps --------------------------------------------------------------------------------------------

    def _plan(
        self, made: Mapping[MeterId, Mapping[str, tuple[bytes, bytes]]], gone: Sequence[MeterId]
    ) -> None:
        """Put what has changed into steps; a meter and its events are in one."""
        away = set(gone)
        slices, self._changed = dict.fromkeys(gone) | self._changed, {}
        changed = list(slices)
        for start in range(0, len(changed), METERS_A_STEP):
            part = changed[start : start + METERS_A_STEP]
            self._step += 1
            self._write_journal({identity: slices[identity] for identity in part})
            self._pending.append(
                BillingStep(
                    number=self._step,
                    meters={
                        id_field(identity): encode_meter(self._meters[identity])
                        for identity in part
                        if identity not in away
                    },
                    gone=[id_field(identity) for identity in part if identity in away],
                    events={
                        sink: [event for identity in part for event in made.get(identity, {}).get(sink, ())]
                        for sink in self._rules.sinks
                    },
                )
            )
        for identity in gone:
            del self._meters[identity]
            self._noted_mono.pop(identity, None)

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
        self._meters, self._noted_mono, self._changed, self.left_alone = {}, {}, {}, set()
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


def _identified(fields: Iterable[tuple[str, bytes]]) -> Iterable[tuple[MeterId, bytes]]:
    for field, raw in fields:
        try:
            yield parse_id_field(field), raw
        except InvalidInput as err:
            logger.error("meter left alone: nobody's", extra={"reason": str(err)})
