"""Moves what Redis holds for VMs from the buckets of one number to those of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.adapters.redis_billing_moves import BillingMoves
from app.adapters.redis_connection import Argument, RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.adapters.redis_queues import queue_keys
from app.cluster.bucket_total import format_resize
from app.cluster.ring import bucket_names
from app.ports.resize import Contents
from app.ports.store import BucketName
from app.ports.vm import VmKey

EVERY_VM = "*"
"""Target of an intent that is meant for all VMs of its bucket."""

KEPT_FENCES_MS = 24 * 3600 * 1000
"""How long the fences of the old buckets stay: whoever was stopped before the resize must not write there."""

_SCANNED_AT_ONCE = 1_000


class RedisResize:
    """The `ResizeStore` of one fleet.

    Args:
        queue_prefix: what stands before Celery's own keys.
        duration_s: of a lease; a worker's heartbeat counts for as long.
    """

    def __init__(
        self, connection: RedisConnection, keys: RedisKeys, queue_prefix: str, *, duration_s: float
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._queue_prefix = queue_prefix
        self._duration_ms = round(duration_s * 1000)
        self._begin, self._move_vm = load_script("resize_begin"), load_script("move_vm")
        self._move_stat, self._finish = load_script("move_stat"), load_script("resize_finish")

    def stored(self) -> str | None:
        """See `ResizeStore.stored`."""
        found = self._connection.execute("GET", self._keys.total())
        return None if found is None else _text(found)

    def at_work(self, old: int) -> Mapping[str, str]:
        """See `ResizeStore.at_work`."""
        commands: list[Sequence[Argument]] = [
            ("TIME",),
            ("ZRANGE", self._keys.heartbeats(), "0", "-1", "WITHSCORES"),
        ]
        commands += [
            ("HMGET", self._keys.lease(name), "agent", "identity", "until_ms") for name in bucket_names(old)
        ]
        time, beats, *leases = self._connection.execute_all(commands)
        now = now_ms(time)
        found = {
            _text(agent): "" for agent, beat_ms in pairs(beats) if float(beat_ms) > now - self._duration_ms
        }
        for agent, identity, until_ms in leases:
            if agent is not None and (int(until_ms or 0) > now or _text(agent) in found):
                found[_text(agent)] = _text(identity or b"")
        return found

    def begin(self, old: int, new: int) -> bool:
        """See `ResizeStore.begin`."""
        keys = [self._keys.total(), self._keys.heartbeats()]
        for name in bucket_names(old):
            keys += (self._keys.lease(name), self._keys.fence(name), self._keys.seq(name))
        for name in bucket_names(new):
            keys += (self._keys.fence(name), self._keys.seq(name))
        mark = format_resize(old, new)
        return bool(self._connection.run(self._begin, keys, old, mark, self._duration_ms))

    def contents(self, old: int) -> Mapping[BucketName, Contents]:
        """See `ResizeStore.contents`."""
        names = [BucketName(name) for name in bucket_names(old)]
        trails: dict[str, set[VmKey]] = {name: set() for name in names}
        for bucket, key in self._trails(old):
            if bucket in trails:
                trails[bucket].add(key)
        return {name: self._contents_of(name, frozenset(trails[name])) for name in names}

    def move_vm(
        self, key: VmKey, old: BucketName, new: BucketName, record: bytes | None, intents: Sequence[str]
    ) -> None:
        """See `ResizeStore.move_vm`."""
        keys = [self._keys_of_vm(bucket, key) for bucket in (old, new)]
        self._connection.run(self._move_vm, [*keys[0], *keys[1]], key, record or b"", *intents)

    def spread_intents(
        self, intents: Mapping[str, bytes], old: Sequence[BucketName], new: Sequence[BucketName]
    ) -> None:
        """See `ResizeStore.spread_intents`."""
        if intents:
            flat = [part for field, value in intents.items() for part in (field, value)]
            commands: list[Sequence[Argument]] = [("HSET", self._keys.intents(name), *flat) for name in new]
            commands += [("HDEL", self._keys.intents(name), *intents) for name in old]
            self._connection.execute_all(commands)

    def move_stat(self, stat: bytes, old: BucketName, new: BucketName | None) -> None:
        """See `ResizeStore.move_stat`."""
        keys = [self._keys.stats(name) for name in (old, new) if name is not None]
        self._connection.run(self._move_stat, keys, stat)

    def move_billing(
        self, old: Sequence[BucketName], new: Sequence[BucketName], owner: Callable[[VmKey], BucketName]
    ) -> None:
        """See `ResizeStore.move_billing`."""
        BillingMoves(self._connection, self._keys).move(old, new, owner)

    def drop_tasks(self, old: int) -> int:
        """See `ResizeStore.drop_tasks`."""
        names = bucket_names(old)
        queues = [self._queue_prefix + key for name in names for key in queue_keys(name)]
        bindings = [f"{self._queue_prefix}_kombu.binding.{name}" for name in names]
        *lengths, _ = self._connection.execute_all(
            [*(("LLEN", queue) for queue in queues), ("DEL", *queues, *bindings)]
        )
        return sum(lengths)

    def finish(self, old: int, new: int) -> None:
        """See `ResizeStore.finish`."""
        keys = [self._keys.total()]
        for name in bucket_names(old):
            keys += (self._keys.lease(name), self._keys.fence(name), self._keys.seq(name))
        self._connection.run(self._finish, keys, format_resize(old, new), new, KEPT_FENCES_MS)

    def _contents_of(self, bucket: BucketName, trails: frozenset[VmKey]) -> Contents:
        records, intents, stats = self._connection.execute_all(
            [
                ("HGETALL", self._keys.state(bucket)),
                ("HGETALL", self._keys.intents(bucket)),
                ("LRANGE", self._keys.stats(bucket), "0", "-1"),
            ]
        )
        by_vm: dict[VmKey, tuple[str, ...]] = {}
        for_all: dict[str, bytes] = {}
        for field, value in pairs(intents):
            target = VmKey(_name(field.partition(b" ")[2]))
            if target == EVERY_VM:
                for_all[_name(field)] = value
            else:
                by_vm[target] = (*by_vm.get(target, ()), _name(field))
        by_key = {VmKey(_name(key)): record for key, record in pairs(records)}
        return Contents(by_key, by_vm, for_all, trails, tuple(bytes(stat) for stat in stats))

    def _trails(self, old: int) -> Iterator[tuple[str, VmKey]]:
        prefix = re.sub(r"([*?\[\]\\])", r"\\\1", self._keys.prefix)
        pattern = f"{prefix}:{{autoscaler-bucket-*-of-{old:02d}}}:*:*"
        place = re.compile(re.escape(self._keys.prefix) + r":\{(.+?)\}:(?:events|deleted):(.*)", re.DOTALL)
        cursor: Any = b"0"
        while True:
            cursor, found = self._connection.execute(
                "SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED_AT_ONCE
            )
            for key in found:
                match = place.fullmatch(_name(key))
                if match is not None:
                    yield match[1], VmKey(match[2])
            if int(cursor) == 0:
                return

    def _keys_of_vm(self, bucket: BucketName, key: VmKey) -> tuple[str, ...]:
        keys = self._keys
        return keys.state(bucket), keys.events(bucket, key), keys.deleted(bucket, key), keys.intents(bucket)


def _text(stored: bytes) -> str:
    return bytes(stored).decode(errors="backslashreplace")


def _name(stored: bytes) -> str:
    """A part of a key, as it can be sent again; what is not UTF-8 was not written by us and is left there."""
    return bytes(stored).decode(errors="replace")
