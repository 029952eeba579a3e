from __future__ import annotations

import json
import logging

import pytest

from app.services.announcing import ANNOUNCE_EVERY_S, ANNOUNCED_FOR_S, LOOK_EVERY_S, Announcement
from tests.fakes.agents import MemoryAgents
from tests.fakes.clock import FakeClock
from tests.fakes.scheduler_fleet import Turns


def test_the_entry_is_refreshed_well_before_it_ends_and_taken_away_at_the_end() -> None:
    registry, stop = MemoryAgents(FakeClock()), Turns(3)
    Announcement(registry, "id", lambda: {"kind": "scheduler"}).run(stop)
    calls = [("register", ANNOUNCED_FOR_S), *[("heartbeat", ANNOUNCED_FOR_S)] * 2, ("unregister", 0.0)]
    assert registry.calls == calls
    assert stop.waits == [ANNOUNCE_EVERY_S] * 3
    assert registry.list() == []


def test_nothing_is_published_before_there_is_something_to_say() -> None:
    registry, stop = MemoryAgents(FakeClock()), Turns(4)
    words = iter([None, None, {"kind": "scheduler"}, {"kind": "scheduler"}])
    Announcement(registry, "id", lambda: next(words)).run(stop)
    assert [call for call, _ in registry.calls] == ["register", "heartbeat", "unregister"]
    assert stop.waits == [LOOK_EVERY_S, LOOK_EVERY_S, ANNOUNCE_EVERY_S, ANNOUNCE_EVERY_S]


def test_a_registry_that_is_away_is_told_at_the_next_turn_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    registry = MemoryAgents(FakeClock(), away=[1, 2])
    announcement = Announcement(registry, "id", lambda: {"kind": "scheduler"})
    for _ in range(4):
        announcement.refresh()
    assert json.loads(registry.list()[0].facts) == {"kind": "scheduler"}
    assert [record.message for record in caplog.records] == ["registry not told", "registry told again"]


def test_a_registry_that_is_away_at_the_end_does_not_keep_the_process() -> None:
    registry = MemoryAgents(FakeClock(), away=[2])
    Announcement(registry, "id", lambda: {"kind": "scheduler"}).run(Turns(1))  # its second call is the last
    assert [record.agent_id for record in registry.list()] == ["id"]


def test_an_entry_that_redis_has_lost_is_made_anew_in_its_old_place() -> None:
    clock = FakeClock()
    registry = MemoryAgents(clock)
    first, second = (Announcement(registry, name, lambda: {"kind": "worker"}) for name in ("z", "a"))
    first.refresh()
    clock.advance(1)
    second.refresh()
    registry.lose_everything()
    second.refresh()
    first.refresh()
    assert [record.agent_id for record in registry.list()] == ["z", "a"]
