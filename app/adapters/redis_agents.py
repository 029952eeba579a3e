"""The registry of processes in Redis: what each last said about itself, until its time is over."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.redis_connection import Argument, RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.ports.registry import AgentRecord


class RedisAgents:
    """The `AgentRegistry` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = [keys.agents(), keys.agents_until(), keys.agents_seen(), keys.agents_order()]
        self._enter = load_script("agent_enter")
        self._expire = load_script("agents_expire")

    def register(self, agent_id: str, facts: bytes, ttl_s: float, *, number: int | None = None) -> int:
        """See `AgentRegistry.register`."""
        return self._entered(agent_id, facts, ttl_s, "register", number or 0)

    def heartbeat(self, agent_id: str, facts: bytes, ttl_s: float) -> bool:
        """See `AgentRegistry.heartbeat`."""
        return self._entered(agent_id, facts, ttl_s, "heartbeat", 0) > 0

    def get(self, agent_id: str) -> AgentRecord | None:
        """See `AgentRegistry.get`."""
        facts, until, _, order = self._keys
        time, found, until_ms, number = self._connection.execute_all(
            [("TIME",), ("HGET", facts, agent_id), ("ZSCORE", until, agent_id), ("ZSCORE", order, agent_id)]
        )
        now = now_ms(time)
        if found is None or until_ms is None or float(until_ms) <= now:
            return None
        return _record(agent_id, found, now, number or 0)

    def list(self) -> Sequence[AgentRecord]:
        """See `AgentRegistry.list`."""
        facts, until, _, order = self._keys
        time, live, published, numbers = self._connection.execute_all(
            [
                ("TIME",),
                ("ZRANGE", until, "0", "-1", "WITHSCORES"),
                ("HGETALL", facts),
                ("ZRANGE", order, "0", "-1", "WITHSCORES"),
            ]
        )
        now, facts_by_id, number_by_id = now_ms(time), dict(pairs(published)), dict(pairs(numbers))
        records = [
            _record(
                agent.decode(errors="backslashreplace"), facts_by_id[agent], now, number_by_id.get(agent, 0)
            )
            for agent, until_ms in pairs(live)
            if float(until_ms) > now and agent in facts_by_id
        ]
        return sorted(records, key=lambda record: (record.number, record.agent_id))

    def unregister(self, agent_id: str) -> bool:
        """See `AgentRegistry.unregister`."""
        facts, *rest = self._keys
        removed, *_ = self._connection.execute_all(
            [("HDEL", facts, agent_id), *(("ZREM", key, agent_id) for key in rest)]
        )
        return bool(removed)

    def expire(self) -> Sequence[str]:
        """See `AgentRegistry.expire`."""
        over = self._connection.run(self._expire, self._keys)
        return [bytes(agent).decode(errors="backslashreplace") for agent in over]

    def _entered(self, agent_id: str, facts: bytes, ttl_s: float, *how: Argument) -> int:
        ttl_ms = max(round(ttl_s * 1000), 1)
        return int(self._connection.run(self._enter, self._keys, agent_id, facts, ttl_ms, *how))


def _record(agent_id: str, stored: bytes, now: int, number: bytes | int) -> AgentRecord:
    seen_ms, _, facts = stored.partition(b" ")
    seen = int(seen_ms) if seen_ms.isdigit() else None
    age_ms = 0 if seen is None else max(now - seen, 0)
    return AgentRecord(agent_id, facts, age_ms, int(float(number)), seen)
