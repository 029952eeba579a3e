"""The registry of processes in Redis: what each last said about itself, until its time is over."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.redis_connection import RedisConnection, load_script, now_ms, pairs
from app.adapters.redis_keys import RedisKeys
from app.ports.store import AgentRecord


class RedisAgents:
    """The `AgentRegistry` of one fleet."""

    def __init__(self, connection: RedisConnection, keys: RedisKeys) -> None:
        self._connection = connection
        self._keys = keys
        self._publish = load_script("publish_agent")

    def publish(self, agent_id: str, facts: bytes, ttl_s: float) -> None:
        """See `AgentRegistry.publish`."""
        keys = [self._keys.agents(), self._keys.agents_until()]
        self._connection.run(self._publish, keys, agent_id, facts, max(round(ttl_s * 1000), 1))

    def list(self) -> Sequence[AgentRecord]:
        """See `AgentRegistry.list`."""
        until_key = self._keys.agents_until()
        time, live, published = self._connection.execute_all(
            [
                ("TIME",),
                ("ZRANGE", until_key, "0", "-1", "WITHSCORES"),
                ("HGETALL", self._keys.agents()),
            ]
        )
        now, facts_by_id = now_ms(time), dict(pairs(published))
        records = []
        for agent, until_ms in pairs(live):
            if float(until_ms) > now and agent in facts_by_id:
                seen_ms, _, facts = facts_by_id[agent].partition(b" ")
                age_ms = max(now - int(seen_ms), 0)
                records.append(AgentRecord(agent.decode(errors="backslashreplace"), facts, age_ms))
        return sorted(records, key=lambda record: record.agent_id)

    def withdraw(self, agent_id: str) -> None:
        """See `AgentRegistry.withdraw`."""
        self._connection.execute_all(
            [("HDEL", self._keys.agents(), agent_id), ("ZREM", self._keys.agents_until(), agent_id)]
        )
