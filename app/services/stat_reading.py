"""The owner reads what waits in its buckets' queues.

What must be true: a stat leaves its queue only under the lease's token and after it has its fate, so that
whoever is killed, cut off or replaced, the next owner finds it there; and none is handed to the forwarder
twice under one lease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.errors import InvalidInput, OwnershipLost, StoreUnavailable
from app.ports.runtime import Concurrency
from app.ports.stats import StatQueue
from app.ports.store import BucketName, FencingToken
from app.protocols.stats import Stat, decode_stat
from app.services.forwarder import Forwarder
from app.services.stat_fates import Fate

logger = logging.getLogger(__name__)

PAGE = 200
"""Stats read, and removed, in one call."""

GATHER_S = 0.02
"""Fates in quick succession are removed from the queue together."""


class _Entry:
    """A stat that is still in the queue; an `Origin`."""

    def __init__(self, reading: _Reading, raw: bytes, stat: Stat | None) -> None:
        self._reading = reading
        self.raw = raw
        self.stat = stat
        self.is_done = stat is None
        self.is_returned = False

    def is_current(self) -> bool:
        """Whether its reading goes on."""
        return self._reading.is_current

    def finish(self, fate: Fate) -> None:
        """It is done, unless it was given back: then it is handed over again, if we are still the owner."""
        if fate is Fate.RETURNED:
            self.is_returned = True
        else:
            self.is_done = True
        self._reading.changed()


class _Reading:
    """One bucket under one lease; `entries` are what stands first in its queue."""

    def __init__(self, bucket: BucketName, token: FencingToken, changed: Callable[[_Reading], None]) -> None:
        self.bucket = bucket
        self.token = token
        self._changed = changed
        self.entries: list[_Entry] = []
        self.is_current = True
        self.is_busy = False
        self.is_asked = False
        self.will_go_on = False

    def changed(self) -> None:
        """An entry has its fate."""
        if self.is_current:
            self._changed(self)


class StatReading:
    """Reads the queues of the buckets that we hold.

    Attributes:
        unreadable: entries that were no stats, removed without effect.
    """

    def __init__(self, forwarder: Forwarder, queue: StatQueue, concurrency: Concurrency) -> None:
        self._forwarder = forwarder
        self._queue = queue
        self._concurrency = concurrency
        self._readings: dict[BucketName, _Reading] = {}
        self.unreadable = 0

    def begin(self, bucket: BucketName, token: FencingToken, ready: Callable[[], None]) -> None:
        """The bucket is ours under this token: read what waits, from the start.

        Args:
            ready: lets the bucket's stats be processed here; called once the oldest of those that wait stand
                before newer ones that come in here, which would make them late.
        """
        self.end(bucket)
        reading = self._readings[bucket] = _Reading(bucket, token, self._go_on_soon)
        reading.is_busy = True
        try:
            self._read_page(reading)
        except StoreUnavailable as err:
            logger.debug("stats not read", extra={"bucket": bucket, "reason": err.problem})
        finally:
            reading.is_busy = False
        if reading.is_current:
            ready()
            self._concurrency.spawn(f"read stats of {bucket}", lambda: self.read(bucket))

    def end(self, bucket: BucketName) -> None:
        """The bucket is no longer ours; what was read and has no fate stays in its queue."""
        reading = self._readings.pop(bucket, None)
        if reading is not None:
            reading.is_current = False

    def read(self, bucket: BucketName) -> None:
        """Hand what waits to the forwarder, as far as it has room; called at each bell and each tick.

        A Redis that is away is asked again at the next one.
        """
        reading = self._readings.get(bucket)
        if reading is None:
            return
        reading.is_asked = True
        if reading.is_busy:
            return
        reading.is_busy = True
        try:
            while reading.is_asked and reading.is_current:
                reading.is_asked = False
                self._read_on(reading)
        except StoreUnavailable as err:
            logger.debug("stats not read", extra={"bucket": bucket, "reason": err.problem})
        except OwnershipLost as err:
            logger.info("stats no longer read", extra={"bucket": bucket, "reason": err.problem})
            if self._readings.get(bucket) is reading:
                self.end(bucket)
        finally:
            reading.is_busy = False

    def _read_on(self, reading: _Reading) -> None:
        while reading.is_current:
            # Nothing is read before it is known what the queue begins with.
            self._remove_done(reading)
            for entry in reading.entries:
                if entry.is_returned and entry.stat is not None:
                    entry.is_returned = not self._forwarder.receive(entry.stat, entry)
            if not self._read_page(reading):
                return

    def _read_page(self, reading: _Reading) -> bool:
        """Hand over as many as there is room for; whether there may be more."""
        # The other half of the room is the intake's.
        count = min(self._forwarder.room // 2, PAGE)
        if count <= 0:
            return False
        found = self._queue.read(reading.bucket, len(reading.entries), count)
        return all(reading.is_current and self._take(reading, raw) for raw in found) and len(found) == count

    def _take(self, reading: _Reading, raw: bytes) -> bool:
        """One entry; whether the next may follow."""
        try:
            stat = decode_stat(raw)
        except InvalidInput as err:
            self.unreadable += 1
            logger.error("stat in the queue can't be read", extra={"reason": str(err)})
            reading.entries.append(_Entry(reading, raw, None))
            reading.changed()
            return True
        entry = _Entry(reading, raw, stat)
        reading.entries.append(entry)
        if self._forwarder.receive(stat, entry):
            return True
        reading.entries.pop()
        return False

    def _remove_done(self, reading: _Reading) -> None:
        while done := [entry for entry in reading.entries if entry.is_done][:PAGE]:
            self._queue.remove(reading.bucket, reading.token, [entry.raw for entry in done])
            gone = set(map(id, done))
            reading.entries = [entry for entry in reading.entries if id(entry) not in gone]

    def _go_on_soon(self, reading: _Reading) -> None:
        """Remove what has its fate, and read on: there is room again."""
        if reading.will_go_on:
            return
        reading.will_go_on = True

        def run() -> None:
            self._concurrency.sleep(GATHER_S)
            reading.will_go_on = False
            if reading.is_current:
                self.read(reading.bucket)

        self._concurrency.spawn(f"remove stats of {reading.bucket}", run)
