"""How much waits in task queues, as Celery's transport keeps them: a list for each priority of a queue.

Ticks go before scaling tasks: after a take-over there can be 64 of those in a queue, behind which a tick
would expire, turn after turn, while the worker is short of CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.adapters.redis_connection import RedisConnection

TICK_PRIORITY, SCALING_PRIORITY = 0, 9
"""Lower goes first, whichever queue of a worker it is in."""


def queue_keys(name: str) -> tuple[str, str]:
    """The keys of a queue's lists, in the order of their priorities."""
    return name, f"{name}\x06\x16{SCALING_PRIORITY}"


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
        commands = [("LLEN", self._prefix + key) for name in names for key in queue_keys(name)]
        return sum(self._connection.execute_all(commands)) if commands else 0
