"""Which VMs have changed since a cursor, for the long poll of the control interface."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

REMEMBERED_REMOVALS = 1_000
"""Deleted VMs that a cursor can learn of; an older cursor gets the whole fleet."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Keys that changed; with `is_full`, `updated` is everything that exists."""

    cursor: str
    is_full: bool
    updated: tuple[str, ...]
    removed: tuple[str, ...]


class ChangeLog:
    """Numbers each change; a cursor is the fleet's epoch and a number."""

    def __init__(self, epoch: str) -> None:
        """An empty log; `epoch` differs between two runs of the fleet: cursors of another run are too old."""
        self._epoch = epoch
        self._number = 0
        self._forgotten = 0
        self._present: OrderedDict[str, int] = OrderedDict()
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._changed = asyncio.Event()

    def mark(self, key: str) -> None:
        """The VM is new or has changed."""
        self._number += 1
        self._removed.pop(key, None)
        self._present[key] = self._number
        self._present.move_to_end(key)
        self._wake()

    def remove(self, key: str) -> None:
        """The VM is gone."""
        if self._present.pop(key, None) is None:
            return
        self._number += 1
        self._removed[key] = self._number
        while len(self._removed) > REMEMBERED_REMOVALS:
            _, self._forgotten = self._removed.popitem(last=False)
        self._wake()

    def since(self, cursor: str) -> Changes:
        """What happened after `cursor`; an unknown, foreign or too old one gets the whole fleet."""
        epoch, _, text = cursor.rpartition(".")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
        now = f"{self._epoch}.{self._number}"
        if epoch != self._epoch or not self._forgotten <= number <= self._number:
            return Changes(now, True, tuple(sorted(self._present)), ())
        return Changes(now, False, _newer(self._present, number), _newer(self._removed, number))

    async def wait(self, cursor: str, timeout_s: float) -> Changes:
        """`since`, as soon as there is something, or after the time with nothing in it."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    changes = self.since(cursor)
                    if changes.is_full or changes.updated or changes.removed:
                        return changes
                    await self._changed.wait()
        except TimeoutError:
            return self.since(cursor)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _newer(numbers: OrderedDict[str, int], number: int) -> tuple[str, ...]:
    """Keys with a number above `number`, oldest change first; the mapping is in order of its numbers."""
    found: list[str] = []
    for key in reversed(numbers):
        if numbers[key] <= number:
            break
        found.append(key)
    return tuple(reversed(found))
