"""Operators' intents in Redis: written by the command line, read by the owner of the bucket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.adapters.redis_connection import RedisConnection, load_script
from app.adapters.redis_keys import RedisKeys
from app.ports.store import BucketName, Intent

_TEXTS = ("target", "kind", "value", "reason", "author", "intent_id")


class RedisIntents:
    """The `IntentStore` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._list = load_script("list_intents")

    def put(self, bucket: BucketName, intent: Intent) -> None:
        """See `IntentStore.put`."""
        # 0 means "never ends", so the end of an intent that ended in 1970 is 1.
        until_ms = 0 if intent.until_ms is None else max(intent.until_ms, 1)
        value = f"{until_ms} {json.dumps(asdict(intent))}"
        field = _field(intent.target, intent.kind)
        self._connection.execute("HSET", self._keys.intents(bucket), field, value)

    def remove(self, bucket: BucketName, target: str, kind: str) -> bool:
        """See `IntentStore.remove`."""
        return bool(self._connection.execute("HDEL", self._keys.intents(bucket), _field(target, kind)))

    def list(self, bucket: BucketName) -> Sequence[Intent]:
        """See `IntentStore.list`, by target and kind; what can't be read is left out."""
        texts = self._connection.run(self._list, [self._keys.intents(bucket)])
        found = [intent for text in texts if (intent := _read(text)) is not None]
        return sorted(found, key=lambda intent: (intent.target, intent.kind))


def _field(target: str, kind: str) -> str:
    return f"{kind} {target}"


def _read(text: bytes) -> Intent | None:
    try:
        fields: Any = json.loads(text)
        until_ms = fields["until_ms"]
        texts = {name: str(fields[name]) for name in _TEXTS}
        return Intent(
            **texts, until_ms=None if until_ms is None else int(until_ms), at_ms=int(fields["at_ms"])
        )
    except (ValueError, KeyError, TypeError):
        return None
