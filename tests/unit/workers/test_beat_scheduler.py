from __future__ import annotations

import pytest
from redbeat import RedBeatScheduler
from redis.exceptions import ConnectionError as RedisAway

from workers.beat import TRY_AGAIN_S, AnnouncingScheduler


class Lock:
    """RedBeat's lock; `is_free` says whether it can be taken anew."""

    def __init__(self) -> None:
        self.is_free = True
        self.taken = 0

    def acquire(self, *, blocking: bool) -> bool:
        assert not blocking
        self.taken += self.is_free
        return self.is_free


class Quiet:
    """An announcement that counts."""

    refreshes = 0

    def refresh(self) -> None:
        self.refreshes += 1


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> AnnouncingScheduler:
    """One whose parent's tick does what `outcomes` says."""
    made = AnnouncingScheduler.__new__(AnnouncingScheduler)
    made._is_away = False
    made._announced = float("-inf")
    made._announcement = Quiet()  # type: ignore[assignment]
    made.lock = Lock()
    made.outcomes = []

    def tick(self: AnnouncingScheduler, *args: object, **kwargs: object) -> float:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return float(outcome)

    monkeypatch.setattr(RedBeatScheduler, "tick", tick)
    return made


def test_a_redis_that_is_away_does_not_end_the_rhythm(scheduler: AnnouncingScheduler) -> None:
    scheduler.outcomes = [0.2, RedisAway("gone"), 0.2]
    assert [scheduler.tick() for _ in range(3)] == [0.2, TRY_AGAIN_S, 0.2]
    assert scheduler.lock.taken == 1


def test_a_beat_whose_lock_another_has_taken_sends_nothing(scheduler: AnnouncingScheduler) -> None:
    scheduler.outcomes = [RedisAway("gone"), 0.2]
    scheduler.tick()
    scheduler.lock.is_free = False
    assert scheduler.tick() == TRY_AGAIN_S
    assert len(scheduler.outcomes) == 1
    scheduler.lock.is_free = True
    assert scheduler.tick() == 0.2


def test_only_progress_is_announced(scheduler: AnnouncingScheduler) -> None:
    scheduler.outcomes = [RedisAway("gone"), RedisAway("gone")]
    scheduler.tick()
    scheduler.tick()
    assert scheduler._announcement.refreshes == 0
