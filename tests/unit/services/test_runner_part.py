"""What the registry is told of a worker's runners."""

from __future__ import annotations

from app.services.runner_part import RunnerPart
from tests.service_builders import BUCKET, a_virtual_machine
from tests.worker_harness import Worker


def test_runners_are_counted_by_status_and_their_runs_since_the_start() -> None:
    worker = Worker(*(a_virtual_machine(name=name, uid=name) for name in ("a", "b", "c")))
    part = RunnerPart(worker.supervisor)
    first, second, _ = worker.supervisor.runners_of(BUCKET)
    worker.supervisor.crashed(first, ZeroDivisionError("ours"))
    second.set_status("stuck", "no word from the monitor")
    assert part.counters() == {
        "runner_starts": 3,
        "runner_restarts": 0,
        "runner_panics": 1,
        "runner_errors": 0,
        "runners_ok": 1,
        "runners_stuck": 1,
        "runners_errored": 0,
        "runners_panicked": 1,
    }
    assert part.problems() == []


def test_vms_that_have_no_runner_are_a_problem_and_counted_as_errored() -> None:
    worker = Worker(a_virtual_machine(), *(a_virtual_machine(name=f"x{n}", slot_bytes=0) for n in range(2)))
    part = RunnerPart(worker.supervisor)
    assert part.counters()["runners_errored"] == 2
    (problem,) = part.problems()
    assert problem.startswith("2 VMs can't be run: default/x0 errored: InvalidInput")
