"""The agents that workers are towards informants, in Redis: an `AgentStore` (`app.protocols.agent_store`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.adapters.redis_connection import Argument, RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.errors import InvalidInput
from app.protocols.agent_store import MAX_NAME_CHARACTERS, Entry, StoredAgent
from app.protocols.bounded_json import read_json_object, write_json
from app.protocols.informant import AgentDesc, decode_agent_desc, encode_agent_desc

MAX_AGENTS = 100_000
"""In one fleet; a VM has one or two."""
MAX_AGENT_BYTES = 8_192
"""Of one agent's JSON."""
_ENTRIES = {1: Entry.ENTERED, 0: Entry.THERE, -1: Entry.FULL}


class RedisAgentSet:
    """An `AgentStore`; every call raises `StoreUnavailable` when Redis gives no answer in time.

    Args:
        ttl_s: until an agent without a heartbeat is gone.
        limit: at most so many agents.
    """

    def __init__(
        self, connection: RedisConnection, keys: RedisKeys, *, ttl_s: float, limit: int = MAX_AGENTS
    ) -> None:
        self._connection = connection
        self._keys = [
            keys.informants(),
            keys.informants_order(),
            keys.informants_numbers(),
            keys.informants_seen(),
        ]
        self._ttl_ms = max(round(ttl_s * 1000), 1)
        self._limit = limit
        self._script = load_script("informant_agents")

    def register(self, agent: StoredAgent) -> Entry:
        """See `AgentStore.register`."""
        what = write_agent(agent)
        answer = self._run("register", agent.desc.agent_id, what, agent.order, agent.number, self._limit)
        return _ENTRIES[int(answer)]

    def confirm(self, agent_id: str) -> int | None:
        """See `AgentStore.confirm`."""
        return int(self._run("confirm", agent_id)) or None

    def note(self, agent_id: str, number: int) -> int | None:
        """See `AgentStore.note`; it is a heartbeat, too."""
        (before,) = self._run("heartbeat", agent_id, number)
        return None if int(before) < 0 else int(before)

    def get(self, agent_id: str) -> StoredAgent | None:
        """See `AgentStore.get`."""
        agents, order, numbers, seen = self._keys
        time, what, place, number, seen_ms = self._connection.execute_all(
            [
                ("TIME",),
                ("HGET", agents, agent_id),
                ("ZSCORE", order, agent_id),
                ("HGET", numbers, agent_id),
                ("ZSCORE", seen, agent_id),
            ]
        )
        return self._read(now_ms(time), what, place, number, seen_ms)

    def list(self) -> Sequence[StoredAgent]:
        """See `AgentStore.list`; what can't be read is left out."""
        agents, order, numbers, seen = self._keys
        time, found, places, highest, times = self._connection.execute_all(
            [
                ("TIME",),
                ("HGETALL", agents),
                ("ZRANGE", order, "0", "-1", "WITHSCORES"),
                ("HGETALL", numbers),
                ("ZRANGE", seen, "0", "-1", "WITHSCORES"),
            ]
        )
        now, what, number = now_ms(time), dict(pairs(found)), dict(pairs(highest))
        seen_ms = dict(pairs(times))
        read = (
            self._read(now, what.get(agent), place, number.get(agent), seen_ms.get(agent))
            for agent, place in pairs(places)
        )
        return [agent for agent in read if agent is not None]

    def heartbeat(self, numbers: Mapping[str, int]) -> Sequence[str]:
        """See `AgentStore.heartbeat`."""
        if not numbers:
            return []
        flat: list[Argument] = []
        for agent_id, number in numbers.items():
            flat += (agent_id, number)
        before = self._run("heartbeat", *flat)
        return sorted(agent for agent, number in zip(numbers, before, strict=True) if int(number) < 0)

    def unregister(self, agent_id: str) -> bool:
        """See `AgentStore.unregister`."""
        agents, order, numbers, seen = self._keys
        _, removed, *_ = self._connection.execute_all(
            [
                ("ZREM", order, agent_id),
                ("HDEL", agents, agent_id),
                ("HDEL", numbers, agent_id),
                ("ZREM", seen, agent_id),
            ]
        )
        return bool(removed)

    def expire(self) -> Sequence[str]:
        """See `AgentStore.expire`."""
        return sorted(bytes(agent).decode(errors="backslashreplace") for agent in self._run("expire"))

    def _run(self, what: str, *arguments: Argument) -> Any:
        return self._connection.run(self._script, self._keys, self._ttl_ms, what, *arguments)

    def _read(
        self,
        now: int,
        what: bytes | None,
        place: bytes | None,
        number: bytes | None,
        seen_ms: bytes | None,
    ) -> StoredAgent | None:
        if what is None or seen_ms is None or now - float(seen_ms) >= self._ttl_ms:
            return None
        try:
            desc, name = read_agent(what)
        except InvalidInput:
            return None
        age_ms = max(now - round(float(seen_ms)), 0)
        return StoredAgent(desc, name, round(float(place or 0)), _number(number), age_ms)


def write_agent(agent: StoredAgent) -> bytes:
    """What Redis has of an agent beside its numbers and times."""
    fields = json.loads(encode_agent_desc(agent.desc))
    return write_json({**fields, "name": agent.name[:MAX_NAME_CHARACTERS]})


def read_agent(data: bytes) -> tuple[AgentDesc, str]:
    """Description and name. Raises InvalidInput: not what `write_agent` writes."""
    name = read_json_object(data, max_bytes=MAX_AGENT_BYTES, where="agent in Redis").get("name")
    if not isinstance(name, str):
        raise InvalidInput("name", "no text")
    return decode_agent_desc(data), name[:MAX_NAME_CHARACTERS]


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() and len(text) <= 20 else 0
