"""A permit is kept for a size that was accepted and may still be applied, whatever is wanted meanwhile."""

from __future__ import annotations

from app.core.resources import resources
from tests.worker_harness import Worker


def asked_of_the_scheduler(worker: Worker) -> list[str]:
    return [entry for entry in worker.log if entry.startswith("permit")]


def test_no_smaller_permit_is_asked_for_while_a_larger_size_is_under_way() -> None:
    worker = Worker()
    worker.platform.is_applying = False
    worker.sample(2)
    assert asked_of_the_scheduler(worker)[-1] == "permit 2000/8"
    worker.log.clear()
    worker.sample(1.5)
    assert worker.runner.state.platform.ongoing == resources(2_000, 8)
    assert asked_of_the_scheduler(worker) == []
    assert any("smaller permit" in reason for reason in worker.runner.plan.reasons)


def test_it_is_asked_for_once_the_size_is_seen() -> None:
    worker = Worker()
    worker.platform.is_applying = False
    worker.sample(2)
    worker.sample(1.5)
    worker.log.clear()
    worker.platform.is_applying = True
    worker.platform.settle()
    worker.settle()
    worker.sample(1.5)
    assert worker.runner.state.platform.ongoing is None
    assert asked_of_the_scheduler(worker)[-1] == "permit 1500/6"


def test_more_is_asked_for_at_once_and_covers_what_is_under_way() -> None:
    worker = Worker()
    worker.platform.is_applying = False
    worker.sample(2)
    worker.log.clear()
    worker.sample(3)
    assert asked_of_the_scheduler(worker) == ["permit 3000/12"]


def test_the_monitor_is_told_of_no_more_than_will_be_there_once_a_smaller_size_is_applied() -> None:
    worker = Worker()
    worker.sample(2)
    assert worker.log[-1] == "monitor up 2000/8"
    worker.platform.is_applying = False
    worker.sample(0.5)
    assert "platform 500/2" in worker.log
    worker.log.clear()
    worker.sample(2)
    assert worker.runner.state.platform.ongoing == resources(500, 2)
    assert [entry for entry in worker.log if entry.startswith("monitor")] == []
    assert any("told of more" in reason for reason in worker.runner.plan.reasons)
    worker.platform.is_applying = True
    worker.platform.settle()
    worker.settle()
    worker.sample(2)
    asked = [entry for entry in worker.log if entry.startswith(("platform", "monitor"))]
    assert asked == ["platform 2000/8", "monitor up 2000/8"]
