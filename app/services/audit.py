"""A VM's audit trail until its next commit: what, from, to, why, who."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from app.core.resources import Resources

MAX_PENDING = 100
"""Entries kept while they can't be written; the oldest go first."""

MAX_TEXT = 400
"""Characters of a text in an entry; peers' words are cut here and again where they are shown."""


def size_json(size: Resources | None) -> dict[str, int] | None:
    """The size as records and entries spell it."""
    return None if size is None else {"cpu_m": size.cpu, "mem": size.mem}


class AuditLog:
    """Entries that wait for the next fenced commit, which writes them beside the record.

    Attributes:
        listener: told of each entry as it is added; must not wait.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._pending: list[bytes] = []
        self.dropped = 0
        self.listener: Callable[[Mapping[str, object]], None] | None = None

    def add(
        self,
        kind: str,
        *,
        why: str,
        origin: Resources | None = None,
        target: Resources | None = None,
        outcome: str | None = None,
        who: str | None = None,
    ) -> dict[str, object]:
        """Add an entry and return it; `who` is an operator where it is not this worker."""
        entry: dict[str, object] = {
            "kind": kind,
            "from": size_json(origin),
            "to": size_json(target),
            "why": why[:MAX_TEXT],
            "who": who or self._who,
            "outcome": outcome,
        }
        self._put([json.dumps(entry).encode()])
        if self.listener is not None:
            self.listener(entry)
        return entry

    def take(self) -> tuple[bytes, ...]:
        """All pending entries, oldest first; they are the caller's now."""
        entries, self._pending = tuple(self._pending), []
        return entries

    def give_back(self, entries: tuple[bytes, ...]) -> None:
        """A commit failed: its entries go in front of what came since."""
        later, self._pending = self._pending, []
        self._put([*entries, *later])

    def _put(self, entries: list[bytes]) -> None:
        self._pending.extend(entries)
        surplus = len(self._pending) - MAX_PENDING
        if surplus > 0:
            del self._pending[:surplus]
            self.dropped += surplus
