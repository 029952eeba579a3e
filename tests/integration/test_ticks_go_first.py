"""A tick never waits behind scaling tasks, in whichever queue of its worker they are."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Producer, Queue

from app.adapters.redis_access import redis_access
from app.adapters.redis_connection import RedisConnection
from app.adapters.redis_queues import SCALING_PRIORITY, TICK_PRIORITY, RedisQueues, queue_keys
from app.config import build_settings
from workers.broker import transport_options
from workers.transport import SturdyChannel, SturdyTransport

FIRST, SECOND = "autoscaler-bucket-00-of-02", "autoscaler-bucket-01-of-02"


def test_a_tick_overtakes_the_scaling_tasks_of_all_queues(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SturdyChannel, "access", redis_access(redis_url))
    path = redis_url.removeprefix("unix://").partition("?")[0]
    redis.Redis(unix_socket_path=path).delete(*queue_keys(FIRST), *queue_keys(SECOND))
    options = transport_options(build_settings({}, {}), with_password=False)
    received: list[Any] = []
    with Connection(f"redis+socket://{path}", transport_options=options) as connection:
        connection.transport_cls = SturdyTransport
        queues = [Queue(FIRST), Queue(SECOND)]
        producer = Producer(connection)
        for number in range(4):
            queue = queues[number % 2]
            body = {"scaling": number}
            producer.publish(body, routing_key=queue.name, declare=[queue], priority=SCALING_PRIORITY)
        producer.publish({"tick": 1}, routing_key=SECOND, priority=TICK_PRIORITY)
        producer.publish({"tick": 2}, routing_key=FIRST)
        assert RedisQueues(RedisConnection(redis_url), "").waiting([FIRST, SECOND]) == 6
        with Consumer(
            connection, queues, callbacks=[lambda body, message: received.append(body)], no_ack=True
        ):
            for _ in range(6):
                connection.drain_events(timeout=10)
    assert {"tick": 1} in received[:2]
    assert {"tick": 2} in received[:2]
    assert [body["scaling"] for body in received[2:] if body["scaling"] % 2 == 0] == [0, 2]
