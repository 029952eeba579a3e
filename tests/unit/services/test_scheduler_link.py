"""What is told of a scheduler that can't be looked up."""

from __future__ import annotations

import pytest

from app.errors import PeerError, PeerRefused, PeerTimedOut
from app.ports.peers import SchedulerInfo
from app.services.scheduler_link import TOLD_FAILURES, SchedulerLink

DENIED = PeerRefused("API server", "status 403 (the rights list and watch on pods are needed)", code=403)


class Pods:
    """A `SchedulerWatch` that fails as told."""

    def __init__(self) -> None:
        self.failure: PeerError | None = None

    def current(self) -> SchedulerInfo | None:
        if self.failure is not None:
            raise self.failure
        return SchedulerInfo("s1", "uid-s1", "http://10.0.0.1:10299")


def test_a_right_that_is_missing_is_told_at_once_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pods = Pods()
    link = SchedulerLink(pods, lambda is_there: None)
    pods.failure = DENIED
    for _ in range(3):
        link.look()
    assert "the rights list and watch on pods are needed" in link.problem
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1
    pods.failure = None
    link.look()
    assert link.problem == ""
    assert link.current()[0] is not None


def test_an_api_server_that_is_away_for_a_moment_is_no_problem() -> None:
    pods = Pods()
    link = SchedulerLink(pods, lambda is_there: None)
    link.look()
    pods.failure = PeerTimedOut("API server", "no answer")
    for _ in range(TOLD_FAILURES - 1):
        link.look()
    assert link.problem == ""
    link.look()
    assert link.problem.endswith("API server: no answer")
    assert link.current()[0] is not None, "whoever was in charge stays"
