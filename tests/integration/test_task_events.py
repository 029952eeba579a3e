"""Events of Celery over a real Redis: gathered, in order, and never in anybody's way."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from app.adapters.redis_access import redis_access
from tests.fleet_process import until
from tests.redis_server import TcpRedis
from workers.events import MOST, SturdyDispatcher
from workers.transport import SturdyChannel


@pytest.fixture
def server(tmp_path: Any) -> Iterator[TcpRedis]:
    one = TcpRedis(tmp_path / "redis")
    yield one
    one.stop()


@pytest.fixture
def celery(server: TcpRedis, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    monkeypatch.setattr(SturdyChannel, "access", redis_access(server.url))
    app = Celery("test", broker=server.url, events="workers.events:SturdyEvents", set_as_current=False)
    app.conf.update(event_serializer="json", accept_content=["json"])
    yield app
    app.close()


@pytest.fixture
def dispatcher(celery: Celery) -> Iterator[SturdyDispatcher]:
    with celery.connection_for_write() as connection:
        found = celery.events.Dispatcher(connection, hostname="worker1@host")
        assert isinstance(found, SturdyDispatcher)
        yield found
        found.close()


def published(server: TcpRedis) -> int:
    return int(server.client().info("commandstats").get("cmdstat_publish", {"calls": 0})["calls"])


def drain(connection: Any) -> None:
    """Read what comes within half a second; what has been asked for goes out meanwhile."""
    with contextlib.suppress(socket.timeout):
        while True:
            connection.drain_events(timeout=0.5)


def received(celery: Celery, send: Any, *, until: str) -> list[tuple[str, Any]]:
    """What a receiver such as Flower sees of what `send` sends, up to an event's type."""
    seen: list[tuple[str, Any]] = []
    with celery.connection_for_read() as connection:
        receiver = celery.events.Receiver(connection, handlers={"*": lambda each: note(each)})

        def note(event: dict[str, Any]) -> None:
            seen.append((event["type"], event.get("number")))
            receiver.should_stop = event["type"] == until

        with receiver.consumer_context() as (used, _, _):
            drain(used)
            send()
            for _ in range(60):
                drain(used)
                if receiver.should_stop:
                    break
    return seen


def test_events_of_tasks_arrive_together_in_their_order_before_what_is_sent_after_them(
    server: TcpRedis, celery: Celery, dispatcher: SturdyDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.events.GATHER_S", 600.0)
    before: list[int] = []

    def send() -> None:
        before.append(published(server))
        for number in range(10):
            dispatcher.send("task-received", number=number)
            dispatcher.send("task-succeeded", number=number)
        dispatcher.send("worker-offline")

    seen = received(celery, send, until="worker-offline")
    assert seen == [
        *((kind, number) for number in range(10) for kind in ("task-received", "task-succeeded")),
        ("worker-offline", None),
    ]
    assert published(server) == before[0] + 2


def test_an_event_of_a_task_waits_no_longer_than_a_moment(
    server: TcpRedis, dispatcher: SturdyDispatcher
) -> None:
    for number in (1, 2):
        dispatcher.send("task-received", number=number)
        until(lambda: published(server) == number, f"event {number}")  # noqa: B023 - called at once


def test_many_events_do_not_wait_for_the_moment(
    server: TcpRedis, dispatcher: SturdyDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.events.GATHER_S", 600.0)
    for number in range(MOST - 1):
        dispatcher.send("task-received", number=number)
    assert published(server) == 0
    dispatcher.send("task-received", number=MOST)
    assert published(server) == 1


def test_without_redis_events_are_dropped_and_nobody_waits(
    server: TcpRedis, dispatcher: SturdyDispatcher
) -> None:
    dispatcher.send("worker-online")
    server.stop()
    for number in range(3 * MOST):
        dispatcher.send("task-received", number=number)
    dispatcher.send("worker-heartbeat")
    server.start()
    before = published(server)
    dispatcher.send("worker-heartbeat")
    assert published(server) == before + 1
