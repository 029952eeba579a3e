"""How much waits in task queues, as Celery's transport keeps them: one list each."""

from __future__ import annotations

from collections.abc import Iterable

from app.adapters.redis_connection import RedisConnection


class RedisQueues:
    """The `QueueLengths` of one fleet.

    Args:
        prefix: what stands before Celery's own keys; empty by default.
    """

    def __init__(self, connection: RedisConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    def waiting(self, names: Iterable[str]) -> int:
        """See `QueueLengths.waiting`."""
        commands = [("LLEN", self._prefix + name) for name in names]
        return sum(self._connection.execute_all(commands)) if commands else 0
