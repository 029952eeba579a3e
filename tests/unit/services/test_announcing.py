from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pytest

from app.errors import StoreUnavailable
from app.ports.store import AgentRecord
from app.services.announcing import ANNOUNCE_EVERY_S, ANNOUNCED_FOR_S, LOOK_EVERY_S, Announcement
from tests.fakes.scheduler_fleet import Turns


class Registry:
    """Keeps what it is told; is away for the given calls."""

    def __init__(self, away: Sequence[int] = ()) -> None:
        self._away = set(away)
        self._calls = 0
        self.entries: dict[str, bytes] = {}
        self.lifetimes: list[float] = []

    def _call(self) -> None:
        self._calls += 1
        if self._calls in self._away:
            raise StoreUnavailable("redis", "no answer")

    def publish(self, agent_id: str, facts: bytes, ttl_s: float) -> None:
        self._call()
        self.entries[agent_id] = facts
        self.lifetimes.append(ttl_s)

    def list(self) -> list[AgentRecord]:
        return [AgentRecord(key, facts, 0) for key, facts in self.entries.items()]

    def withdraw(self, agent_id: str) -> None:
        self._call()
        del self.entries[agent_id]


def test_the_entry_is_refreshed_well_before_it_ends_and_taken_away_at_the_end() -> None:
    registry, stop = Registry(), Turns(3)
    Announcement(registry, "id", lambda: {"kind": "scheduler"}).run(stop)
    assert registry.lifetimes == [ANNOUNCED_FOR_S] * 3
    assert stop.waits == [ANNOUNCE_EVERY_S] * 3
    assert registry.entries == {}


def test_nothing_is_published_before_there_is_something_to_say() -> None:
    registry, stop = Registry(), Turns(4)
    words = iter([None, None, {"kind": "scheduler"}, {"kind": "scheduler"}])
    Announcement(registry, "id", lambda: next(words)).run(stop)
    assert len(registry.lifetimes) == 2
    assert stop.waits == [LOOK_EVERY_S, LOOK_EVERY_S, ANNOUNCE_EVERY_S, ANNOUNCE_EVERY_S]


def test_a_registry_that_is_away_is_told_at_the_next_turn_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    registry = Registry(away=[1, 2])
    announcement = Announcement(registry, "id", lambda: {"kind": "scheduler"})
    for _ in range(4):
        announcement.refresh()
    assert json.loads(registry.entries["id"]) == {"kind": "scheduler"}
    assert [record.message for record in caplog.records] == ["registry not told", "registry told again"]


def test_a_registry_that_is_away_at_the_end_does_not_keep_the_process() -> None:
    registry = Registry(away=[2])
    Announcement(registry, "id", lambda: {"kind": "scheduler"}).run(Turns(1))  # its second call is the last
    assert "id" in registry.entries
