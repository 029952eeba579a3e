"""Lets so many waits for peers run at once, those that came first before the others.

Without it a worker that takes over a thousand VMs asks the scheduler a thousand questions at once and dials
as many monitors: most time out in its own queues, are asked again, and the polls get no turn meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.ports.runtime import Clock, Concurrency, Signal
from app.services.polling import LOOK_EVERY_S, PollSlots

FEW = 2
"""So many go on while they give way: what is left undone grows old too."""

LONGEST_WAIT_S = 5.0
"""Of those that are not first; they are woken when they are, this is for a wake-up that was lost."""


class Turnstile:
    """Places for jobs of one kind.

    Args:
        quick: so many at once; one that has waited over 0.2 s for its peer is not counted any more.
    """

    def __init__(self, clock: Clock, concurrency: Concurrency, quick: int) -> None:
        self._concurrency = concurrency
        self._slots = PollSlots(clock, quick)
        self._waiting: deque[Signal] = deque()
        self._must_give_way: Callable[[], bool] = lambda: False

    def give_way(self, must: Callable[[], bool]) -> None:
        """Let only a few through while this is so; called once, before anything runs, or not at all."""
        self._must_give_way = must

    @property
    def waiting(self) -> int:
        """Jobs that have no place yet."""
        return len(self._waiting)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a place, and have it for as long as the block lasts.

        What was true before may not be so any more when it begins.
        """
        place = self._take()
        try:
            yield
        finally:
            self._slots.free(place)
            self._wake_first()

    def _take(self) -> int:
        place = None if self._waiting else self._try_take()
        if place is not None:
            return place
        mine = self._concurrency.signal()
        self._waiting.append(mine)
        try:
            while True:
                is_first = self._waiting[0] is mine
                place = self._try_take() if is_first else None
                if place is not None:
                    return place
                mine.wait(LOOK_EVERY_S if is_first else LONGEST_WAIT_S)
                mine.clear()
        finally:
            self._waiting.remove(mine)
            self._wake_first()

    def _try_take(self) -> int | None:
        if self._slots.taken >= FEW and self._must_give_way():
            return None
        return self._slots.try_take()

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()
