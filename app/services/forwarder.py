"""Brings each stat to the owner of its VM (`spec/forwarder.md`, "The forwarder").

What must be true: stats of one VM are handled one at a time and in the order in which they were taken; one
that waits holds back no other VM's; and each one that was taken has exactly one fate, so that at any moment
taken + received = accepted + forwarded + late + dropped + returned + in hand.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.cluster.ring import BucketSet
from app.ports.own_metrics import STAT_RETRIES
from app.ports.runtime import Clock, Concurrency, Job
from app.ports.store import Holder
from app.protocols.printable import printable
from app.services.plain_threads import PlainClock, PlainThreads
from app.services.stat_fates import Counts, Fate, Origin, Processor

logger = logging.getLogger(__name__)

INBOX = 1_000
"""Stats waiting and retrying together (`spec/forwarder.md`)."""

RETRY_EVERY_S = 0.5
MAX_RETRIES = 30
"""Then the stat is dropped: about 15 s (`spec/forwarder.md`)."""

MAX_JOBS = 16
"""VMs whose stats are handled at the same moment."""

REMEMBERED_VMS = 65_536
"""VMs whose last accepted timestamp is kept here; the owner's records have all of them."""

CANCEL_S = 10.0
"""How long `cancel` waits for what is being processed; every call has a shorter limit of its own."""

HAND_ON_S = 5.0
"""How long `cancel` then tries to put into queues what is left; a Redis that is away must not hold it up."""


@dataclass(slots=True)
class _Item:
    stat: Any
    origin: Origin | None = None
    tries: int = 0
    is_tried: bool = False
    problem: str = "nobody owns its bucket"


class Forwarder:
    """Handles stats, each VM's in order, by the processor of the VM's bucket.

    May be used from several threads.

    Args:
        bucket_set: says which bucket a VM belongs to.
        clock: for the pauses between retries; the process' own without one.
        concurrency: runs the jobs; threads without one.
        holder: this process, as its leases name it.
        send: puts a stat into a bucket's queue; raises where it was not put, or perhaps.
        noted: told of each stat's fate.
    """

    def __init__(
        self,
        bucket_set: BucketSet,
        *,
        clock: Clock | None = None,
        concurrency: Concurrency | None = None,
        holder: Holder | None = None,
        send: Callable[[str, Any], object] | None = None,
        noted: Callable[[Any, Fate], None] | None = None,
    ) -> None:
        self._bucket_set = bucket_set
        self._clock: Clock = clock or PlainClock()
        self._concurrency: Concurrency = concurrency or PlainThreads()
        self._noted = noted or (lambda stat, fate: None)
        self.holder = holder
        self.send = send
        self.counts = Counts()
        # Guards all that follows; nothing that waits is called under it.
        self._lock = threading.Lock()
        self._processors: dict[str, Processor] = {}
        self._lines: dict[str, deque[_Item]] = {}
        self._ready: deque[str] = deque()
        self._waiting: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._in_hand = 0
        self._last: OrderedDict[str, int] = OrderedDict()
        self._jobs: set[Job] = set()
        self._workers = 0
        self._has_timer = False
        self._is_cancelled = False
        self._stop = self._concurrency.signal()

    # --- what others ask ----------------------------------------------------------------------------------

    @property
    def buckets(self) -> tuple[str, ...]:
        """All buckets, sorted."""
        return self._bucket_set.names

    @property
    def in_hand(self) -> int:
        """Stats taken that have no fate yet."""
        return self._in_hand

    @property
    def room(self) -> int:
        """How many more would be taken now."""
        return 0 if self._is_cancelled else max(INBOX - self._in_hand, 0)

    def is_bucket_owner(self, bucket: str) -> bool:
        """Whether this process processes the bucket's stats itself."""
        with self._lock:
            processor = self._processors.get(bucket)
        return processor is not None and processor.is_local

    def process(self, stat: Any) -> bool:
        """Take a stat; whether it was taken: no when the inbox is full, or after `cancel`. Does not wait."""
        return self.process_all([stat])

    def process_all(self, stats: Sequence[Any]) -> bool:
        """Take all of them or none, in this order."""
        return self._take([_Item(stat) for stat in stats])

    def receive(self, stat: Any, origin: Origin) -> bool:
        """Take a stat that a bucket's queue has; it is never sent on, but given back if we own it no more."""
        return self._take([_Item(stat, origin)])

    def set_processor(self, bucket: str, processor: Processor | None) -> None:
        """Who processes the bucket's stats from now on; the earlier one is shut down first."""
        with self._lock:
            before = self._processors.pop(bucket, None)
        if before is not None:
            before.shut_down()
        if processor is not None:
            with self._lock:
                if not self._is_cancelled:
                    self._processors[bucket] = processor
                    return
            processor.shut_down()

    def cancel(self) -> None:
        """Take no more, let what is being processed finish, close processors, end all jobs.

        What is still in hand then goes to its bucket's queue, whoever may own it next; where there is none,
        or it does not answer, it is dropped and counted. The second time does nothing.
        """
        with self._lock:
            if self._is_cancelled:
                return
            self._is_cancelled = True
        self._stop.set()
        self._join_jobs()
        with self._lock:
            # What a job that does not end is still trying will have its fate from that.
            left = [item for line in self._lines.values() for item in line if not item.is_tried]
            self._lines.clear()
            self._ready.clear()
            self._waiting.clear()
        deadline = self._clock.monotonic() + HAND_ON_S
        for item in left:
            self._finish(item, self._hand_on(item, is_tried=self._clock.monotonic() < deadline))
        for bucket in self.buckets:
            self.set_processor(bucket, None)

    def _join_jobs(self) -> None:
        while True:
            with self._lock:
                job = next(iter(self._jobs), None)
            if job is None:
                return
            if not job.join(CANCEL_S):
                logger.error("forwarder's job does not end", extra={"after_s": CANCEL_S})
                return

    # --- taking and handling ------------------------------------------------------------------------------

    def _take(self, items: list[_Item]) -> bool:
        with self._lock:
            if self._is_cancelled or self._in_hand + len(items) > INBOX:
                self.counts.refused += len(items)
                return False
            self._in_hand += len(items)
            for item in items:
                if item.origin is None:
                    self.counts.taken += 1
                else:
                    self.counts.received += 1
                line = self._lines.get(item.stat.key)
                if line is None:
                    self._lines[item.stat.key] = deque([item])
                    self._ready.append(item.stat.key)
                else:
                    line.append(item)
        self._ensure_workers()
        return True

    def _ensure_workers(self) -> None:
        """As many jobs as there are VMs to be handled, within bounds."""
        with self._lock:
            wanted = 0 if self._is_cancelled else min(len(self._ready), MAX_JOBS - self._workers)
            self._workers += wanted
        for _ in range(wanted):
            self._spawn("forward stats", self._work)

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        mine: set[Job] = set()

        def tracked() -> None:
            try:
                run()
            finally:
                with self._lock:
                    self._jobs -= mine

        with self._lock:
            mine.add(self._concurrency.spawn(name, tracked))
            self._jobs |= mine

    def _work(self) -> None:
        """Handle the heads of lines until none is ready."""
        while True:
            with self._lock:
                if not self._ready or self._is_cancelled:
                    self._workers -= 1
                    return
                key = self._ready.popleft()
                item = self._lines[key][0]
                item.is_tried = True
            fate = self._attempt(item)
            if fate is None and item.tries > MAX_RETRIES:
                fate = Fate.DROPPED
            if fate is None:
                self._wait(key, item)
            else:
                self._finish(item, fate)
                self._go_on(key)

    def _attempt(self, item: _Item) -> Fate | None:
        """Try once; None: try again later."""
        stat = item.stat
        try:
            bucket = self._bucket_set.owner(stat.key)
            with self._lock:
                processor = self._processors.get(bucket)
                last = self._last.get(stat.key)
            is_local = processor is not None and processor.is_local
            if item.origin is not None and not (is_local and item.origin.is_current()):
                return Fate.RETURNED
            if processor is None:
                item.problem = "nobody is known to own its bucket"
            elif is_local and last is not None and stat.timestamp <= last:
                return Fate.LATE
            else:
                return self._note_accepted(stat, processor.process(stat))
        except Exception as err:  # noqa: BLE001 any error of a processor means: try again
            item.problem = f"{type(err).__name__}: {err}"
        item.tries += 1
        STAT_RETRIES.add()
        return None

    def _note_accepted(self, stat: Any, fate: Fate) -> Fate:
        if fate is Fate.ACCEPTED:
            with self._lock:
                self._last[stat.key] = stat.timestamp
                self._last.move_to_end(stat.key)
                if len(self._last) > REMEMBERED_VMS:
                    self._last.popitem(last=False)
        return fate

    def _hand_on(self, item: _Item, *, is_tried: bool) -> Fate:
        """At the end: what is still in hand."""
        if item.origin is not None:
            return Fate.RETURNED
        try:
            if self.send is not None and is_tried:
                self.send(self._bucket_set.owner(item.stat.key), item.stat)
                return Fate.FORWARDED
            item.problem = "this process ends"
        except Exception as err:  # noqa: BLE001 there is no later try
            item.problem = f"{type(err).__name__}: {err}"
        return Fate.DROPPED

    def _finish(self, item: _Item, fate: Fate) -> None:
        if fate is Fate.DROPPED:
            facts = {"vm": printable(str(item.stat.key)), "reason": printable(item.problem)}
            logger.warning("stat dropped", extra=facts)
        try:
            self._noted(item.stat, fate)
            if item.origin is not None:
                item.origin.finish(fate)
        except Exception:
            logger.exception("fate of a stat not noted")
        with self._lock:
            self._in_hand -= 1
            setattr(self.counts, fate.value, getattr(self.counts, fate.value) + 1)

    # --- lines --------------------------------------------------------------------------------------------

    def _go_on(self, key: str) -> None:
        """The head of a line has its fate: the next one may be handled."""
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                return  # cancelled meanwhile
            line.popleft()
            if line:
                self._ready.append(key)
            else:
                del self._lines[key]

    def _wait(self, key: str, item: _Item) -> None:
        """Try it again after a pause; one job watches over all that wait."""
        with self._lock:
            item.is_tried = False
            is_late = key not in self._lines
        if is_late:  # `cancel` has handed on what was left, and did not wait for this one
            self._finish(item, self._hand_on(item, is_tried=True))
            return
        with self._lock:
            heapq.heappush(self._waiting, (self._clock.monotonic() + RETRY_EVERY_S, next(self._order), key))
            must_begin = not self._has_timer and not self._is_cancelled
            self._has_timer = self._has_timer or must_begin
        if must_begin:
            self._spawn("retry stats", self._time)

    def _time(self) -> None:
        """Make lines ready whose pause is over, until none waits."""
        while True:
            with self._lock:
                now = self._clock.monotonic()
                while self._waiting and self._waiting[0][0] <= now:
                    self._ready.append(heapq.heappop(self._waiting)[2])
                if not self._waiting or self._is_cancelled:
                    self._has_timer = False
                    break
                pause = self._waiting[0][0] - now
            self._ensure_workers()
            self._stop.wait(pause)
        self._ensure_workers()
