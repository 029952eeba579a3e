"""Lets time pass in a real Redis without waiting: every stored time becomes older."""

from __future__ import annotations

import redis

TIME_FIELDS = (b"until_ms", b"renewed_ms", b"acquired_ms", b"since_ms", b"ms")


def elapse(client: redis.Redis, prefix: str, seconds: float) -> None:
    """Move all times under `prefix` by `seconds` into the past (into the future if negative).

    Key expiries (PEXPIRE) are moved as well.
    """
    delta = round(seconds * 1000)
    for key in list(client.scan_iter(match=f"{prefix}:*")):
        kind = client.type(key)
        if kind == b"zset":
            for member in client.zrange(key, 0, -1):
                client.zincrby(key, -delta, member)
        elif kind == b"hash":
            _age_hash(client, key, delta)
        if (left := client.pttl(key)) > 0:
            client.pexpire(key, left - delta)


def _age_hash(client: redis.Redis, key: bytes, delta: int) -> None:
    fields = client.hgetall(key)
    if key.endswith((b":intents", b":agents", b":drains")):
        for field, value in fields.items():
            at, _, rest = value.partition(b" ")
            if at != b"0":
                client.hset(key, field, b"%d %s" % (int(at) - delta, rest))
        return
    for field in TIME_FIELDS:
        if field in fields:
            client.hincrby(key, field, -delta)
