"""Leases in memory, by the rules of the Lua scripts; the clock's wall time stands for Redis' clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import ConfigurationError, StoreUnavailable
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, Holder, LeaseRow, LeaseView


@dataclass
class _Lease:
    token: int = 0
    holder: Holder | None = None
    renewed_ms: int = 0
    until_ms: int = 0


class MemoryLeases:
    """`LeaseStore` and `LeaseReader`; `before_call` may raise or let time pass, `calls` has all calls."""

    def __init__(self, clock: Clock, names: Sequence[str], *, duration_s: float) -> None:
        self._clock = clock
        self._duration_ms = round(duration_s * 1000)
        self._leases = {BucketName(name): _Lease() for name in names}
        self._fences: dict[BucketName, int] = {}
        self._heartbeats: dict[str, int] = {}
        self._total: int | None = None
        self._epoch_since_ms: int | None = None
        self.is_away = False
        self.calls: list[str] = []
        self.renewed_last: frozenset[BucketName] = frozenset()
        self.before_call: Callable[[str], None] = lambda name: None
        self.after_call: Callable[[str], None] = lambda name: None

    def lose_everything(self) -> None:
        """Redis has been emptied, or has come back without its data."""
        for lease in self._leases.values():
            lease.token, lease.holder, lease.until_ms, lease.renewed_ms = 0, None, 0, 0
        self._fences, self._heartbeats, self._total, self._epoch_since_ms = {}, {}, None, None

    def check_total(self, total: int) -> None:
        self._called("check_total")
        if self._total is None:
            self._total = total
        if self._total != total:
            raise ConfigurationError(
                [f".ownership.buckets: {total}, but this fleet has {self._total} in Redis; set it to that"]
            )

    def stored_total(self) -> int | None:
        self._called("stored_total")
        return self._total

    def round(self, holder: Holder, renew: Mapping[BucketName, FencingToken]) -> LeaseView:
        self._called("round")
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
        if self._epoch_since_ms is not None and not self._is_held_back(now):
            for bucket in buckets:
                lease = self._leases[bucket]
                if lease.holder in (None, holder) or lease.until_ms <= now:
                    lease.token = max(lease.token, self._fences.get(bucket, 0), now, seen) + 1
                    lease.holder, lease.renewed_ms, lease.until_ms = holder, now, now + self._duration_ms
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
            rows[bucket] = LeaseRow(bucket, holder, FencingToken(lease.token), remaining if holder else 0)
        oldest = now - self._duration_ms
        live = tuple(sorted(agent for agent, beat in self._heartbeats.items() if beat > oldest))
        return LeaseView(rows, live, renewed, now)
