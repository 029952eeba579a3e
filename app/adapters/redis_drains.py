"""Drains of workers in Redis: written by the command line, read in each round of the leases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.adapters.redis_connection import RedisConnection, load_script, pairs
from app.adapters.redis_keys import RedisKeys
from app.ports.drain import DrainNote


class RedisDrains:
    """The `DrainStore` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._drain = load_script("drain_agent")

    def drain(self, agent_id: str, note: DrainNote) -> None:
        """See `DrainStore.drain`."""
        keys = [self._keys.drains(), self._keys.heartbeats()]
        self._connection.run(self._drain, keys, agent_id, json.dumps(asdict(note)))

    def undo(self, agent_id: str) -> bool:
        """See `DrainStore.undo`."""
        return bool(self._connection.execute("HDEL", self._keys.drains(), agent_id))

    def drains(self) -> Mapping[str, DrainNote]:
        """See `DrainStore.drains`; what can't be read is a drain by nobody."""
        flat = self._connection.execute("HGETALL", self._keys.drains())
        return {
            agent.decode(errors="backslashreplace"): _read(stored.partition(b" ")[2])
            for agent, stored in pairs(flat)
        }


def _read(text: bytes) -> DrainNote:
    try:
        fields: Any = json.loads(text)
        return DrainNote(str(fields["author"]), str(fields["reason"]), int(fields["at_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return DrainNote("", "", 0)
