"""Leases in memory, by the rules of the Lua scripts; the clock's wall time stands for Redis' clock."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.cluster.bucket_total import check_total, read_total
from app.errors import StoreUnavailable
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView


@dataclass
class _Lease:
    token: int = 0
    holder: Holder | None = None
    renewed_ms: int = 0
    until_ms: int = 0
    acquired_ms: int = 0


class MemoryLeases:
    """`LeaseStore` and `LeaseReader`; `before_call` may raise or let time pass, `calls` has all calls.

    Args:
        fences: shared with a `MemoryState`, as both have the same keys in Redis.
    """

    def __init__(
        self,
        clock: Clock,
        names: Sequence[str],
        *,
        duration_s: float,
        fences: dict[BucketName, int] | None = None,
    ) -> None:
        self._clock = clock
        self._duration_ms = round(duration_s * 1000)
        self._leases = {BucketName(name): _Lease() for name in names}
        self._fences: dict[BucketName, int] = {} if fences is None else fences
        self._heartbeats: dict[str, int] = {}
        self.total: str | None = None
        self.draining: set[str] = set()
        self._epoch_since_ms: int | None = None
        self.is_away = False
        self.is_read_only = False
        self.calls: list[str] = []
        self.renewed_last: frozenset[BucketName] = frozenset()
        self.before_call: Callable[[str], None] = lambda name: None
        self.after_call: Callable[[str], None] = lambda name: None

    def lose_everything(self) -> None:
        """Redis has been emptied, or has come back without its data."""
        for lease in self._leases.values():
            lease.token, lease.holder, lease.until_ms, lease.renewed_ms = 0, None, 0, 0
        self._fences.clear()
        self._heartbeats, self.total, self._epoch_since_ms = {}, None, None
        self.draining.clear()

    def begin_epoch(self) -> None:
        """Redis has restarted with its data, or another server has become the master."""
        self._epoch_since_ms = None

    def keep(self) -> object:
        """A copy of everything, as a replica has it; for `fail_over`."""
        return copy.deepcopy((self._leases, self._fences, self._heartbeats, self.total))

    def fail_over(self, kept: Any) -> None:
        """A replica that had got this far is the master now."""
        leases, fences, heartbeats, total = copy.deepcopy(kept)
        self._leases, self._heartbeats, self.total = leases, heartbeats, total
        self._fences.clear()
        self._fences.update(fences)
        self.begin_epoch()

    def check_total(self, total: int) -> None:
        self._called("check_total")
        if self.total is None:
            self.total = str(total)
        check_total(total, self.total)

    def stored_total(self) -> int | None:
        self._called("stored_total")
        return None if self.total is None else read_total(self.total)

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        self._called("round")
        self.total = self.total or str(len(self._leases))
        check_total(len(self._leases), self.total)
        now = self._clock.wall_ms()
        if self._epoch_since_ms is None or self._epoch_since_ms > now:
            self._epoch_since_ms = now
        self._heartbeats = {agent: min(beat, now) for agent, beat in self._heartbeats.items()}
        self._heartbeats[holder.agent_id] = now
        for lease in self._leases.values():
            if lease.renewed_ms > now:
                lease.renewed_ms, lease.until_ms = now, now + self._duration_ms
        renewed = frozenset(
            bucket for bucket, token in renew.items() if self._renew(holder, bucket, token, now)
        )
        self.renewed_last = renewed
        view = self._view(now, renewed)
        self.after_call("round")
        return view

    def view(self) -> LeaseView:
        self._called("view")
        return self._view(self._clock.wall_ms(), frozenset())

    def acquire(
        self, holder: Holder, buckets: Sequence[BucketName], seen: FencingToken
    ) -> Mapping[BucketName, FencingToken]:
        self._called("acquire")
        now = self._clock.wall_ms()
        taken: dict[BucketName, FencingToken] = {}
        if self.total == str(len(self._leases)) and not self._is_held_back(now):
            for bucket in buckets:
                lease = self._leases[bucket]
                if lease.holder in (None, holder) or lease.until_ms <= now:
                    lease.token = max(lease.token, self._fences.get(bucket, 0), now, seen) + 1
                    lease.holder, lease.renewed_ms, lease.until_ms = holder, now, now + self._duration_ms
                    lease.acquired_ms = now
                    self._fences[bucket] = lease.token
                    taken[bucket] = FencingToken(lease.token)
        self.after_call("acquire")
        return taken

    def release(self, holder: Holder, held: Mapping[BucketName, FencingToken]) -> None:
        self._called("release")
        for bucket, token in held.items():
            lease = self._leases[bucket]
            if lease.holder == holder and lease.token == token:
                lease.holder, lease.until_ms, lease.renewed_ms = None, 0, 0

    def leave(self, holder: Holder) -> None:
        self._called("leave")
        self._heartbeats.pop(holder.agent_id, None)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        self.before_call(name)
        if self.is_away:
            raise StoreUnavailable("redis", "is away")

    def _is_held_back(self, now: int) -> bool:
        return self._epoch_since_ms is None or now - self._epoch_since_ms < self._duration_ms

    def _renew(self, holder: Holder, bucket: BucketName, token: int, now: int) -> bool:
        lease, fence = self._leases[bucket], self._fences.get(bucket, 0)
        current = lease.holder if lease.until_ms > now else None
        is_ours = current == holder and lease.token == token
        is_asserted = (
            self._is_held_back(now)
            and token >= fence
            and (token > lease.token or (token == lease.token and current in (None, holder)))
        )
        if is_asserted and not is_ours:
            lease.acquired_ms = now
        if is_ours or is_asserted:
            lease.token, lease.holder = token, holder
            lease.renewed_ms, lease.until_ms = now, now + self._duration_ms
            self._fences[bucket] = max(fence, token)
        return is_ours or is_asserted

    def _view(self, now: int, renewed: frozenset[BucketName]) -> LeaseView:
        rows = {}
        for bucket, lease in self._leases.items():
            remaining = max(lease.until_ms - now, 0)
            holder = lease.holder if remaining else None
            times = (remaining, lease.acquired_ms) if holder else (0, 0)
            rows[bucket] = LeaseRow(bucket, holder, FencingToken(lease.token), *times)
        oldest = now - self._duration_ms
        live = tuple(sorted(agent for agent, beat in self._heartbeats.items() if beat > oldest))
        since = now if self._epoch_since_ms is None else self._epoch_since_ms
        silence_ms = max(since + self._duration_ms - now, 0)
        return LeaseView(rows, live, renewed, now, frozenset(self.draining), silence_ms, self.is_read_only)
