"""When a VM's monitor is dialled again: a floor, jitter on top of it, and for ever."""

from __future__ import annotations

from typing import cast

import pytest

from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.peers import MonitorCallbacks
from app.ports.runtime import Concurrency, Monotonic
from app.ports.vm import Address
from app.services.monitor_link import JITTER, MonitorLink
from app.services.turnstile import Turnstile
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, a_virtual_machine, some_settings
from tests.worker_harness import Guards

FLOOR_S = 5.0


class Pauses:
    """A stop signal that notes what it is waited for, lets that time pass, and is set after so many waits."""

    def __init__(self, clock: FakeClock, turns: int) -> None:
        self._clock = clock
        self._turns = turns
        self.waits: list[float] = []

    def set(self) -> None:
        self._turns = 0

    def clear(self) -> None:
        raise AssertionError("a stop is final")

    def is_set(self) -> bool:
        return self._turns <= 0

    def wait(self, timeout_s: float | None = None) -> bool:
        assert timeout_s is not None
        self._turns -= 1
        self.waits.append(timeout_s)
        self._clock.advance(timeout_s)
        return self.is_set()


class Dialled:
    """A connector whose connections take and live as long as the test says; None: it fails that way."""

    def __init__(
        self, clock: FakeClock, stop: Pauses, lives: list[float | PeerError], takes_s: float
    ) -> None:
        self._clock = clock
        self._stop = stop
        self._lives = lives
        self._takes_s = takes_s
        self.exited = False
        self.closes = 0
        self.waiters_size = 0
        self.dialled_at: list[Monotonic] = []

    def connect(self, address: Address, callbacks: MonitorCallbacks, *, timeout_s: float) -> Dialled:
        self.dialled_at.append(self._clock.monotonic())
        self._clock.advance(self._takes_s)
        self._life = self._lives.pop(0)
        if not self._lives:
            self._stop.set()
        if isinstance(self._life, PeerError):
            raise self._life
        return self

    def serve(self, is_wanted: object) -> None:
        assert isinstance(self._life, float)
        self._clock.advance(self._life)

    def close(self) -> None:
        self.closes += 1

    def downscale(self, *arguments: object, **options: object) -> None:
        raise AssertionError("nobody asks")

    upscale = downscale


class Jobs:
    """Runs a job at once."""

    def __init__(self, stop: Pauses) -> None:
        self._stop = stop

    def signal(self) -> Pauses:
        return self._stop

    def spawn(self, name: str, run: object) -> None:
        assert callable(run)
        run()


def pauses(lives: list[float | PeerError], *, spread: float = 0.0, takes_s: float = 0.0) -> list[float]:
    clock = FakeClock()
    stop = Pauses(clock, 1_000)
    runner = a_runner(clock, a_virtual_machine(), some_settings(monitor_retry_min_wait_s=FLOOR_S))
    dialled = Dialled(clock, stop, [*lives, PeerUnreachable("m", "the end")], takes_s)
    guards, jobs = Guards(), cast(Concurrency, Jobs(stop))
    MonitorLink(
        runner,
        dialled,  # type: ignore[arg-type]
        lambda: guards,
        (clock, jobs),
        lambda runner: None,
        Turnstile(clock, jobs, 1),
        spread,
    ).start()
    return stop.waits[: len(lives)]


def test_a_connection_that_lived_longer_than_the_floor_is_dialled_again_at_once() -> None:
    # There is no pause behind the first; the first pause is the rest of the second's.
    assert pauses([5.5, 1.0])[0] == 4.0


@pytest.mark.parametrize("takes_s", [0.0, 3.0])
def test_one_that_lived_shorter_waits_for_the_rest_of_it_however_long_the_dialling_took(
    takes_s: float,
) -> None:
    assert pauses([2.0], takes_s=takes_s) == [3.0]


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_the_jitter_is_on_top_of_the_floor(spread: float) -> None:
    (pause,) = pauses([PeerUnreachable("m", "no connection")], spread=spread)
    assert pause == pytest.approx(FLOOR_S * (1 + JITTER * spread))


def test_it_goes_on_for_ever_whatever_the_last_connection_died_of() -> None:
    ways: list[float | PeerError] = [
        PeerUnreachable("m", "no connection"),
        PeerTimedOut("m", "no answer"),
        PeerRefused("m", "no shared version"),
        0.0,
    ]
    assert pauses(ways * 25) == [FLOOR_S] * 100


def test_a_connection_that_fails_before_it_is_served_is_closed_and_the_core_told() -> None:
    clock = FakeClock()
    stop = Pauses(clock, 1)
    runner = a_runner(clock, a_virtual_machine(), some_settings(monitor_retry_min_wait_s=FLOOR_S))
    dialled = Dialled(clock, stop, [1.0, 1.0], 0.0)
    told: list[bool] = []

    def changed(changed_runner: object) -> None:
        told.append(runner.state.monitor.is_active)
        if len(told) == 1:
            raise RuntimeError("a bug")

    jobs = cast(Concurrency, Jobs(stop))
    link = MonitorLink(
        runner,
        dialled,  # type: ignore[arg-type]
        lambda: Guards(),
        (clock, jobs),
        changed,
        Turnstile(clock, jobs, 1),
        0.0,
    )
    link.start()
    assert told == [True, False]
    assert dialled.closes == 1
    with pytest.raises(PeerUnreachable):
        link.upscale(link.generation, timeout_s=1.0)
