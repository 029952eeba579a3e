"""Records and audit trails in memory, fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.errors import OwnershipLost, StoreUnavailable
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import VmKey


class MemoryState:
    """A `StateStore`; `is_away` makes every call fail, `commits` keeps what was written, in order."""

    def __init__(
        self,
        clock: Clock,
        *,
        retention_s: float = 86_400.0,
        fences: dict[BucketName, int] | None = None,
    ) -> None:
        self._clock = clock
        self._retention_ms = round(retention_s * 1000)
        self._fences: dict[BucketName, int] = {} if fences is None else fences
        self._records: dict[BucketName, dict[VmKey, bytes]] = {}
        self._deleted: dict[tuple[BucketName, VmKey], tuple[int, bytes]] = {}
        self._events: dict[tuple[BucketName, VmKey], list[tuple[int, bytes]]] = {}
        self._events_until: dict[tuple[BucketName, VmKey], int] = {}
        self.is_away = False
        self.commits: list[tuple[BucketName, FencingToken, tuple[VmWrite, ...]]] = []

    def replace_records(self, records: Mapping[BucketName, Mapping[VmKey, bytes]]) -> None:
        """Redis has lost its records, or has only those that a replica had got."""
        self._records = {bucket: dict(of) for bucket, of in records.items()}

    def raise_fence(self, bucket: BucketName, token: FencingToken) -> None:
        self._answer()
        self._check(bucket, token)

    def load(self, bucket: BucketName) -> Mapping[VmKey, bytes]:
        self._answer()
        return dict(self._records.get(bucket, {}))

    def commit(self, bucket: BucketName, token: FencingToken, writes: Sequence[VmWrite]) -> None:
        self._answer()
        if not writes:
            return
        self._check(bucket, token)
        self.commits.append((bucket, token, tuple(writes)))
        now = self._clock.wall_ms()
        records = self._records.setdefault(bucket, {})
        for write in writes:
            place = (bucket, write.key)
            if write.events:
                self._forget_old_events(now)
                self._events.setdefault(place, []).extend((now, entry) for entry in write.events)
                self._events_until.pop(place, None)
                self._deleted.pop(place, None)
            if write.is_deleted:
                last = write.record or records.get(write.key)
                records.pop(write.key, None)
                if last is not None:
                    self._deleted[place] = (now + self._retention_ms, last)
                self._events_until[place] = now + self._retention_ms
            elif write.record is not None:
                records[write.key] = write.record

    def read(self, bucket: BucketName, key: VmKey) -> bytes | None:
        self._answer()
        record = self._records.get(bucket, {}).get(key)
        until_ms, deleted = self._deleted.get((bucket, key), (0, None))
        if record is None and until_ms > self._clock.wall_ms():
            return deleted
        return record

    def events(self, bucket: BucketName, key: VmKey, limit: int) -> Sequence[tuple[int, bytes]]:
        self._answer()
        self._forget_old_events(self._clock.wall_ms())
        entries = self._events.get((bucket, key), [])
        return entries[-limit:] if limit > 0 else []

    def _answer(self) -> None:
        if self.is_away:
            raise StoreUnavailable("redis", "is away")

    def _check(self, bucket: BucketName, token: FencingToken) -> None:
        fence = self._fences.get(bucket, 0)
        if token < fence:
            raise OwnershipLost(bucket, f"token {token} is older than {fence}; nothing was written")
        self._fences[bucket] = token

    def _forget_old_events(self, now: int) -> None:
        for place in [place for place, until_ms in self._events_until.items() if until_ms <= now]:
            del self._events_until[place]
            self._events.pop(place, None)
