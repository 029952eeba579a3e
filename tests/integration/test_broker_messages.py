"""What is no message in a queue of a real Redis: dropped, and the next one is taken."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Producer, Queue

from app.adapters.redis_access import redis_access
from workers.transport import SturdyChannel, SturdyTransport


@pytest.mark.parametrize(
    "rubbish",
    [
        b"not json at all",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        json.dumps({"body": "e30=", "headers": {}, "properties": None}).encode(),
        json.dumps(
            {"body": 1, "headers": {}, "properties": {"delivery_info": {}, "delivery_tag": "a"}}
        ).encode(),
        json.dumps({"body": "e30=", "headers": {}, "properties": {"delivery_info": {}}}).encode(),
    ],
)
def test_a_message_that_is_none_does_not_keep_the_next_one(
    redis_url: str, rubbish: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SturdyChannel, "access", redis_access(redis_url))
    path = redis_url.removeprefix("unix://").partition("?")[0]
    received: list[Any] = []
    queue = Queue("sturdy-test")
    client = redis.Redis(unix_socket_path=path)
    client.delete("sturdy-test")
    with Connection(f"redis+socket://{path}", transport_options={"ack_emulation": False}) as connection:
        connection.transport_cls = SturdyTransport
        client.lpush("sturdy-test", rubbish)
        Producer(connection).publish({"seq": 1}, routing_key="sturdy-test", declare=[queue])
        with Consumer(
            connection, [queue], callbacks=[lambda body, message: received.append(body)], no_ack=True
        ):
            for _ in range(20):
                try:
                    connection.drain_events(timeout=0.5)
                except socket.timeout:  # noqa: UP041 what kombu raises
                    continue
                if received:
                    break
    assert received == [{"seq": 1}]
