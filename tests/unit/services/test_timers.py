from __future__ import annotations

from collections.abc import Hashable

import gevent

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.services.timers import Timers


class Fired:
    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.concurrency = GreenConcurrency()
        self.timers = Timers(SystemClock(), self.concurrency, self.keys.append)
        self.stop = self.concurrency.signal()
        self.job = self.concurrency.spawn("timers", lambda: self.timers.run(self.stop))

    def until(self, count: int) -> list[Hashable]:
        with gevent.Timeout(10):
            while len(self.keys) < count:
                gevent.sleep(0.005)
        self.stop.set()
        return self.keys


def test_timers_fire_in_the_order_of_their_times_not_of_their_calls() -> None:
    fired = Fired()
    fired.timers.set("late", 0.1)
    fired.timers.set("soon", 0.01)
    assert fired.until(2) == ["soon", "late"]


def test_a_later_call_replaces_the_earlier_one_for_the_same_vm() -> None:
    fired = Fired()
    fired.timers.set("a", 0.01)
    fired.timers.set("a", 0.05)
    fired.timers.set("b", 0.1)
    assert fired.until(2) == ["a", "b"]


def test_a_cancelled_timer_does_not_fire() -> None:
    fired = Fired()
    fired.timers.set("a", 0.01)
    fired.timers.cancel("a")
    fired.timers.set("b", 0.03)
    assert fired.until(1) == ["b"]


def test_a_timer_set_while_the_job_sleeps_wakes_it() -> None:
    fired = Fired()
    fired.timers.set("far", 60)
    gevent.sleep(0.01)
    fired.timers.set("near", 0.01)
    assert fired.until(1) == ["near"]
