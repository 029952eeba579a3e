from __future__ import annotations

import json

import pytest

from app.adapters.scheduler_registry import RegistrySchedulerWatch
from app.ports.peers import SchedulerInfo
from tests.fakes.agents import MemoryAgents
from tests.fakes.clock import FakeClock
from tests.fakes.scheduler_fleet import StandingClock


class Fixture:
    def __init__(self) -> None:
        self.clock = StandingClock()
        self.registry = MemoryAgents(FakeClock())
        self.watch = RegistrySchedulerWatch(self.registry, self.clock)

    def start(self, uid: str, started_ms: int) -> None:
        facts = {
            "kind": "scheduler",
            "name": "scheduler",
            "uid": uid,
            "url": f"http://127.0.0.1:1/{uid}",
            "started_ms": started_ms,
        }
        self.registry.register(uid, json.dumps(facts).encode(), 10.0)

    def uid(self) -> str | None:
        found = self.watch.current()
        return None if found is None else found.uid


@pytest.fixture
def fleet() -> Fixture:
    return Fixture()


def test_there_is_none_without_an_entry(fleet: Fixture) -> None:
    assert fleet.watch.current() is None


def test_the_entry_tells_name_uid_and_address(fleet: Fixture) -> None:
    fleet.start("one", 5)
    assert fleet.watch.current() == SchedulerInfo("scheduler", "one", "http://127.0.0.1:1/one")


def test_of_two_live_ones_the_newest_is_in_charge(fleet: Fixture) -> None:
    fleet.start("new", 9)
    fleet.start("old", 5)
    assert fleet.uid() == "new"


def test_a_new_one_takes_over_no_sooner_than_5_s_after_the_last_switch(fleet: Fixture) -> None:
    fleet.start("one", 5)
    assert fleet.uid() == "one"
    fleet.start("two", 6)
    fleet.clock.now_ms += 4_999
    assert fleet.uid() == "one"
    fleet.clock.now_ms += 1
    assert fleet.uid() == "two"


def test_until_a_new_one_takes_over_a_deleted_one_is_not_asked(fleet: Fixture) -> None:
    fleet.start("one", 5)
    assert fleet.uid() == "one"
    fleet.registry.unregister("one")
    fleet.start("two", 6)
    assert fleet.uid() is None
    fleet.clock.now_ms += 5_000
    assert fleet.uid() == "two"


def test_one_whose_entry_comes_back_goes_on_at_once(fleet: Fixture) -> None:
    fleet.start("one", 5)
    assert fleet.uid() == "one"
    fleet.registry.unregister("one")
    assert fleet.uid() is None
    fleet.start("one", 5)
    assert fleet.uid() == "one"


@pytest.mark.parametrize(
    "facts",
    [
        b"\xff",
        b"[]",
        b"{",
        b'{"kind":"worker","uid":"u","url":"http://h","name":"n","started_ms":1}',
        b'{"kind":"scheduler","uid":"u","url":"ftp://h","name":"n","started_ms":1}',
        b'{"kind":"scheduler","uid":"u","url":"http://h","name":"n"}',
        b'{"kind":"scheduler","uid":7,"url":"http://h","name":"n","started_ms":1}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_scheduler_is_passed_over(fleet: Fixture, facts: bytes) -> None:
    fleet.start("one", 5)
    fleet.registry.register("other", facts, 10.0)
    assert fleet.uid() == "one"
