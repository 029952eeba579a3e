"""How many log lines may be written: no peer, and no fault of ours, fills a disk.

Two buckets of tokens: a line needs one of its message and its VM or peer, and one of the process. What is
left out is counted, and told with the next line of its kind, or in one of its own when a minute has gone by.
The time is the records' own; a clock that goes back gives no tokens and takes none.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator

from app.ports.log_context import log_facts

MAX_KINDS = 10_000
"""Messages and peers that are told apart; of more, the one that was silent for longest is forgotten."""

TELL_AFTER_S = 60.0
"""What was left out is told after so long without a line of its kind."""

LOOK_EVERY_S = 10.0
"""Between two looks for kinds of which something is to be told."""

_PEERS = ("vm", "peer", "address", "client", "bucket")
"""Facts that say whom a line is about, the narrowest first."""

_OURS = ("app.", "workers.")

Kind = tuple[str, str, str]
"""Logger, message (of ours, whose messages are constant), VM or peer."""


class _Bucket:
    """Tokens, and what was refused without one."""

    __slots__ = ("left_out", "refused_at", "seen_at", "tokens")

    def __init__(self, tokens: float, now: float) -> None:
        self.tokens = tokens
        self.seen_at = now
        self.refused_at = now
        self.left_out = 0

    def take(self, now: float, rate: float, most: float) -> bool:
        """Take a token, at `rate` a second and `most` at once; whether there was one."""
        self.tokens = min(most, self.tokens + max(now - self.seen_at, 0.0) * rate)
        self.seen_at = now
        if self.tokens < 1:
            self.left_out += 1
            self.refused_at = now
            return False
        self.tokens -= 1
        return True

    def tell(self) -> int:
        """How many were left out since the last time."""
        count, self.left_out = self.left_out, 0
        return count


class LogRates:
    """Decides on each record; not thread-safe: its handler's lock guards it."""

    def __init__(self, lines_per_minute: int, lines_per_second: int) -> None:
        self._a_minute = lines_per_minute
        self._a_second = lines_per_second
        self._kinds: OrderedDict[Kind, _Bucket] = OrderedDict()
        self._whole = _Bucket(lines_per_second, 0.0)
        self._forgotten = 0
        self._looked_at = 0.0

    def let_through(self, record: logging.LogRecord) -> list[logging.LogRecord]:
        """What is to be written now: the record or not, and before it what is to be told."""
        now = record.created
        lines = list(self._due(now))
        kind = _kind(record)
        bucket = self._kinds.get(kind)
        if bucket is None:
            bucket = self._kinds[kind] = _Bucket(self._a_minute, now)
            self._forget()
        self._kinds.move_to_end(kind)
        if bucket.take(now, self._a_minute / 60, self._a_minute) and self._may_any(now):
            left_out = bucket.tell()
            if left_out:
                record.left_out = left_out
            lines.append(record)
        return lines

    def remaining(self) -> Iterator[logging.LogRecord]:
        """Whatever has not been told yet; for the end."""
        for kind, bucket in self._kinds.items():
            if bucket.left_out:
                yield _told(kind, bucket.tell())
        yield from self._told_of_all()

    def _may_any(self, now: float) -> bool:
        return self._whole.take(now, self._a_second, self._a_second)

    def _due(self, now: float) -> Iterator[logging.LogRecord]:
        """Lines about kinds that have been silent since something of them was left out."""
        if 0 <= now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        for kind, bucket in self._kinds.items():
            if bucket.left_out and now - bucket.refused_at >= TELL_AFTER_S and self._may_any(now):
                yield _told(kind, bucket.tell())
        yield from self._told_of_all()

    def _told_of_all(self) -> Iterator[logging.LogRecord]:
        count = self._whole.tell() + self._forgotten
        self._forgotten = 0
        if count:
            yield _told(("", "more than this process may write", ""), count)

    def _forget(self) -> None:
        if len(self._kinds) > MAX_KINDS:
            _, bucket = self._kinds.popitem(last=False)
            self._forgotten += bucket.left_out


def _kind(record: logging.LogRecord) -> Kind:
    if not record.name.startswith(_OURS):
        return record.name, "", ""
    own, bound = vars(record), log_facts()
    peer = next((str(place[name])[:200] for name in _PEERS for place in (own, bound) if name in place), "")
    return record.name, str(record.msg)[:200], peer


def _told(kind: Kind, count: int) -> logging.LogRecord:
    name, message, peer = kind
    facts: dict[str, object] = {"left_out": count, "of": message or name}
    if peer:
        facts["about"] = peer
    return logging.makeLogRecord(
        {
            "name": "app.log",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "lines left out",
            **facts,
        }
    )
