"""`/readyz`, and `/healthz` of processes of one loop: what they say, and when they say it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest

from app.config import build_settings
from app.services.pulse import Pulse
from app.web.ready import add_pulse_page, add_ready_page
from app.web.worker import WorkerApplication
from tests.fakes.clock import FakeClock
from workers.beat_health import STUCK_AFTER_S, BeatHealth


def ask(application: WorkerApplication, path: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
    said: list[str] = []
    environ = {"PATH_INFO": path, "REQUEST_METHOD": method}
    body = application(environ, lambda status, headers: said.append(status))  # type: ignore[arg-type]
    return int(said[0].split()[0]), json.loads(b"".join(body))


class Loop:
    def __init__(self) -> None:
        self.turns = 0
        self.clock = FakeClock()
        self.application = WorkerApplication()
        self.reasons: list[str] = []
        pulse = Pulse(lambda: self.turns, self.clock, 30, "the loop")
        add_pulse_page(self.application, pulse, lambda: {"role": "leader"})
        add_ready_page(self.application, lambda: self.reasons)


def test_a_loop_that_turns_is_well_however_slowly() -> None:
    loop = Loop()
    for _ in range(5):
        loop.clock.advance(29)
        loop.turns += 1
        assert ask(loop.application, "/healthz") == (
            HTTPStatus.OK,
            {"status": "ok", "reasons": [], "turns": loop.turns, "role": "leader"},
        )


def test_a_loop_that_stands_still_is_stuck_until_it_turns_again() -> None:
    loop = Loop()
    loop.clock.advance(31)
    status, told = ask(loop.application, "/healthz")
    assert (status, told["status"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "stuck")
    assert told["reasons"] == ["the loop has not had a turn for 31 s"]
    loop.turns += 1
    assert ask(loop.application, "/healthz")[0] == HTTPStatus.OK


def test_ready_is_who_has_no_reason_not_to_be() -> None:
    loop = Loop()
    assert ask(loop.application, "/readyz") == (HTTPStatus.OK, {"status": "ready", "reasons": []})
    loop.reasons = ["it is being stopped"]
    assert ask(loop.application, "/readyz", "HEAD") == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        {"status": "waiting", "reasons": ["it is being stopped"]},
    )


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> tuple[BeatHealth, FakeClock]:
    clock = FakeClock()
    monkeypatch.setattr("workers.beat_health.SystemClock", lambda: clock)
    return BeatHealth(build_settings({}, {})), clock


def test_a_beat_is_ready_once_it_turns_and_redis_answers(beat: tuple[BeatHealth, FakeClock]) -> None:
    health, _ = beat
    assert ask(health.application, "/readyz")[1]["reasons"] == ["the schedule is not written yet"]
    health.turned("standby", "")
    assert ask(health.application, "/readyz")[0] == HTTPStatus.OK
    health.turned("standby", "ConnectionError: refused")
    assert ask(health.application, "/readyz")[1]["reasons"] == ["Redis: ConnectionError: refused"]


def test_a_beat_without_redis_is_not_to_be_started_again_but_a_stuck_one_is(
    beat: tuple[BeatHealth, FakeClock],
) -> None:
    health, clock = beat
    health.turned("leader", "ConnectionError: refused")
    status, told = ask(health.application, "/healthz")
    assert (status, told["redis"], told["role"]) == (200, "ConnectionError: refused", "leader")
    clock.advance(STUCK_AFTER_S + 1)
    assert ask(health.application, "/healthz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
