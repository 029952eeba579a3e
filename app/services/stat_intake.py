"""Judges what VMs push: the whole list is taken, or nothing of it.

The order of the checks keeps strangers from learning anything: without the right token every list that names
a VM is answered alike, whether there is such a VM or not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.errors import InvalidInput
from app.ports.runtime import Clock
from app.protocols.stat_tokens import is_token_of
from app.protocols.stats import Stat, key_of, read_entries, read_stat
from app.services.clock_skew import ClockSkew
from app.services.sender_rates import SenderRates


class Answer(enum.Enum):
    """What the sender is told."""

    TAKEN = "taken"
    BAD = "bad"
    """Its text names the entry and the field."""
    UNAUTHORIZED = "unauthorized"
    TOO_LARGE = "too large"
    BUSY = "busy"
    """Full, or too many from this sender: the same list may be sent again later."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, with a line for the sender."""

    answer: Answer
    text: str


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Bounds of one request and of one sender; at most `max_entries` at once after a pause."""

    max_entries: int
    max_bytes: int
    per_s: float


class StatIntake:
    """What is behind `POST /v1/stats`.

    Args:
        take: takes all of these stats, or says no; does not wait.
        secret: the fleet's secret, of which each VM's token is made.

    Attributes:
        skew: the VMs' clocks, as seen here.
    """

    def __init__(
        self, take: Callable[[Sequence[Stat]], bool], secret: str, clock: Clock, limits: IntakeLimits
    ) -> None:
        self._take = take
        self._secret = secret
        self._clock = clock
        self._limits = limits
        self._rates = SenderRates(clock, per_s=limits.per_s, burst=limits.max_entries)
        self.skew = ClockSkew()

    @property
    def max_bytes(self) -> int:
        """Longest body."""
        return self._limits.max_bytes

    def receive(self, body: bytes, token: str) -> Verdict:
        """One request's body, with the token that came with it, "" for none."""
        if not token:
            return Verdict(Answer.UNAUTHORIZED, "send the VM's token: Authorization: Bearer TOKEN")
        try:
            entries = read_entries(body, max_bytes=self._limits.max_bytes)
        except InvalidInput as err:
            return Verdict(Answer.BAD, str(err))
        if len(entries) > self._limits.max_entries:
            return Verdict(Answer.TOO_LARGE, f"over {self._limits.max_entries} entries")
        if not entries:
            return Verdict(Answer.BAD, "body: an empty list")
        keys = {key for entry in entries if (key := key_of(entry)) is not None}
        if not all(is_token_of(self._secret, key, token) for key in keys):
            return Verdict(Answer.UNAUTHORIZED, "the token is not that of each entry's key")
        now = self._clock.wall_ms()
        try:
            stats = [read_stat(entry, f"[{at}]", now_ms=now) for at, entry in enumerate(entries)]
        except InvalidInput as err:
            return Verdict(Answer.BAD, str(err))
        return self._take_list(stats, now)

    def _take_list(self, stats: list[Stat], now_ms: int) -> Verdict:
        sender = stats[0].key
        if not self._rates.may_send(sender, len(stats)):
            return Verdict(Answer.BUSY, f"over {self._limits.per_s:g} stats a second; send again later")
        if not self._take(stats):
            return Verdict(Answer.BUSY, "the inbox is full; send again later")
        self._rates.count(sender, len(stats))
        self.skew.note(sender, max(stat.timestamp for stat in stats), now_ms)
        return Verdict(Answer.TAKEN, f"{len(stats)} taken")
