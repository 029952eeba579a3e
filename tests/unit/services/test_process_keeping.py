from __future__ import annotations

import pytest

from app.core.model import Millis
from app.ports.runtime import Monotonic
from app.services.process_keeping import ProcessKeeper
from tests.fakes.processes import FakeLauncher, spec


class SteppedClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> Monotonic:
        return Monotonic(self.seconds)

    def wall_ms(self) -> Millis:
        return Millis(int(self.seconds * 1000))

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def launcher() -> FakeLauncher:
    return FakeLauncher()


@pytest.fixture
def keeper(launcher: FakeLauncher, clock: SteppedClock) -> ProcessKeeper:
    return ProcessKeeper(launcher, clock, sleep=clock.sleep)


def test_a_child_that_died_is_started_again_two_seconds_later(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    keeper.start(spec("worker"))
    launcher.latest("worker").end = "exit status 1"
    keeper.tick()
    clock.seconds += 1.9
    keeper.tick()
    (down,) = keeper.states()
    assert (down.is_running, down.restarts, down.last_end) == (False, 0, "exit status 1")
    clock.seconds += 0.1
    keeper.tick()
    (up,) = keeper.states()
    assert (up.is_running, up.restarts, up.last_end) == (True, 1, "exit status 1")
    assert launcher.journal == ["start worker", "start worker"]


def test_a_child_that_lives_is_left_alone(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    keeper.start(spec("beat"))
    for _ in range(5):
        clock.seconds += 10
        keeper.tick()
    assert launcher.journal == ["start beat"]


def test_the_death_of_one_child_does_not_touch_the_others(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    keeper.start(spec("beat"))
    keeper.start(spec("worker"))
    launcher.latest("worker").end = "killed by SIGKILL"
    keeper.tick()
    clock.seconds += 2
    keeper.tick()
    assert [state.restarts for state in keeper.states()] == [0, 1]


def test_a_child_that_cannot_be_started_is_tried_again(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    launcher.missing.add("flower")
    keeper.start(spec("flower"))
    assert keeper.states()[0].last_end == "not started: No such file or directory"
    launcher.missing.clear()
    clock.seconds += 2
    keeper.tick()
    assert keeper.states()[0].is_running


def test_two_children_of_one_name_are_refused(keeper: ProcessKeeper) -> None:
    keeper.start(spec("worker"))
    with pytest.raises(ValueError, match="worker"):
        keeper.start(spec("worker"))


def test_children_are_stopped_wave_by_wave(keeper: ProcessKeeper, launcher: FakeLauncher) -> None:
    keeper.start(spec("redis", stop_wave=2))
    keeper.start(spec("sim", stop_wave=1))
    keeper.start(spec("worker"))
    launcher.journal.clear()
    assert keeper.stop(5.0) == ()
    assert launcher.journal == ["terminate worker", "terminate sim", "terminate redis"]


def test_a_child_that_ignores_the_request_is_killed_after_the_grace_period(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    keeper.start(spec("redis", stop_wave=2))
    keeper.start(spec("worker"))
    launcher.latest("worker").obeys = False
    launcher.journal.clear()
    before = clock.seconds
    assert keeper.stop(5.0) == ("worker",)
    assert launcher.journal == ["terminate worker", "kill worker", "terminate redis"]
    assert 5.0 <= clock.seconds - before < 5.2


def test_nothing_is_started_again_after_the_stop(
    keeper: ProcessKeeper, launcher: FakeLauncher, clock: SteppedClock
) -> None:
    keeper.start(spec("worker"))
    keeper.stop(1.0)
    launcher.journal.clear()
    clock.seconds += 60
    keeper.tick()
    assert launcher.journal == []
    assert keeper.states() == ()


def test_kill_asks_nobody(keeper: ProcessKeeper, launcher: FakeLauncher) -> None:
    keeper.start(spec("worker"))
    keeper.start(spec("redis", stop_wave=2))
    launcher.journal.clear()
    keeper.kill()
    assert launcher.journal == ["kill worker", "kill redis"]
