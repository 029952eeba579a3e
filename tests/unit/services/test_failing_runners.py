"""Runners that fail: each ends alone, is told of, and is begun anew after the wait of the specification."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import pytest

from app.core.resources import Resources, resources
from app.errors import PeerTimedOut
from app.ports.vm import VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.runner import Runner
from app.services.runner_life import MAX_PREVIOUS, ExitKind, Life
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET, a_runner, a_virtual_machine, some_settings
from tests.worker_harness import Worker

DB, OTHER = VmKey("default/db"), VmKey("default/other")


def quick(low: float = 0.01, high: float = 0.02, **changes: object) -> AgentSettings:
    return some_settings(
        restart_min_wait_s=low, restart_max_wait_s=high, monitor_retry_min_wait_s=0.05, **changes
    )


def two_vms(**options: object) -> Worker:
    other = a_virtual_machine(name="other", uid="uid-2")
    return Worker(a_virtual_machine(), other, **options)  # type: ignore[arg-type]


def runner_of(worker: Worker, key: VmKey) -> Runner:
    runner = worker.supervisor.runner(BUCKET, key)
    assert runner is not None
    return runner


def life_of(worker: Worker, key: VmKey) -> Life:
    (life,) = [life for name, life, _ in worker.supervisor.lives() if name == key]
    return life


@contextmanager
def pauses(worker: Worker) -> Iterator[list[float]]:
    """Waits of the worker's jobs, none of which is waited for."""
    asked: list[float] = []
    concurrency = worker.supervisor._restarting._concurrency  # the one place where the wait shows

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        gevent.sleep(0)

    concurrency.sleep = sleep  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        del concurrency.sleep


def test_a_runner_that_ran_for_long_is_begun_anew_at_once() -> None:
    worker = Worker()
    old = worker.runner
    old.started -= 10.1  # type: ignore[assignment]
    with pauses(worker) as asked:
        worker.supervisor.crashed(old, ZeroDivisionError("ours"))
        worker.until(lambda: worker.runner is not old)
    assert asked == [0.0]


def test_one_that_failed_soon_waits_between_the_least_and_the_longest_wait_and_not_as_long_as_others() -> (
    None
):
    waits = set()
    for name in ("a", "b", "c"):
        worker = Worker(a_virtual_machine(name=name))
        old = worker.runner
        with pauses(worker) as asked:
            worker.supervisor.crashed(old, ZeroDivisionError("ours"))
            worker.until(lambda: worker.runner is not old)  # noqa: B023 called here
        assert 5.0 <= asked[0] <= 10.0
        waits.add(asked[0])
    assert len(waits) == 3


def test_a_bug_is_told_as_panicked_and_an_error_that_we_know_as_errored() -> None:
    worker = two_vms()
    worker.supervisor.crashed(runner_of(worker, DB), ZeroDivisionError("ours"))
    worker.supervisor.crashed(runner_of(worker, OTHER), PeerTimedOut("node-1", "no answer"))
    assert (runner_of(worker, DB).status, runner_of(worker, OTHER).status) == ("panicked", "errored")
    ends = [life_of(worker, key).end for key in (DB, OTHER)]
    assert [(end.kind, end.error) for end in ends if end] == [
        (ExitKind.PANICKED, "ZeroDivisionError: ours"),
        (ExitKind.ERRORED, "PeerTimedOut: node-1: no answer"),
    ]
    assert (worker.supervisor.counts.panics, worker.supervisor.counts.errors) == (1, 1)


def test_the_failed_runner_is_shown_so_in_its_record_while_it_waits() -> None:
    worker = Worker()
    worker.supervisor.crashed(worker.runner, ZeroDivisionError("ours"))

    def record() -> dict[str, object]:
        found: dict[str, object] = json.loads(worker.states.load(BUCKET)[DB])
        return found

    worker.until(lambda: record()["status"] == "panicked")
    assert record()["status_reason"] == "ZeroDivisionError: ours"
    assert worker.audit()[-1] == "panicked"


def test_a_poll_that_comes_late_does_not_make_a_failed_runner_well() -> None:
    worker = Worker()
    worker.supervisor.crashed(worker.runner, ZeroDivisionError("ours"))
    worker.runner.update_status()
    assert worker.runner.status == "panicked"


def test_the_next_run_remembers_how_the_ones_before_ended() -> None:
    worker = Worker(settings=quick())
    for number in range(3):
        old = worker.runner
        worker.supervisor.crashed(old, ZeroDivisionError(f"number {number}"))
        worker.until(lambda: worker.runner is not old)  # noqa: B023 called here
    life = life_of(worker, DB)
    assert life.end is None
    assert [end.error for end in life.previous] == [f"ZeroDivisionError: number {n}" for n in range(3)]
    counts = worker.supervisor.counts
    assert (counts.starts, counts.restarts, counts.panics) == (4, 3, 3)
    worker.until(lambda: worker.runner.is_ready)
    worker.take_up()
    worker.sample(1)
    assert "restarted" in worker.audit()


def test_of_many_ends_the_last_ones_are_kept() -> None:
    life = Life(FakeClock().wall_ms(), "uid-1")
    for number in range(MAX_PREVIOUS + 5):
        life.fail(ZeroDivisionError(str(number)), FakeClock().wall_ms())
        life.begin(FakeClock().wall_ms())
    kept = [end.error.split()[-1] for end in life.previous]
    assert kept == [str(number) for number in range(5, MAX_PREVIOUS + 5)]
    assert life.failures == MAX_PREVIOUS + 5


def test_the_same_failure_again_and_again_is_logged_with_one_trace(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(settings=quick())
    with caplog.at_level(logging.WARNING, "app.services.restarting"):
        for _ in range(4):
            old = worker.runner
            worker.supervisor.crashed(old, ZeroDivisionError("ours"))
            worker.until(lambda: worker.runner is not old)  # noqa: B023 called here
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_runner_whose_vm_is_deleted_while_it_waits_is_not_begun_again() -> None:
    worker = Worker(settings=quick(0.05, 0.06))
    worker.supervisor.crashed(worker.runner, ZeroDivisionError("ours"))
    worker.platform.delete(DB)
    worker.settle()
    gevent.sleep(0.1)
    assert worker.supervisor.runners() == []
    assert worker.supervisor.lives() == []


def test_a_runner_that_was_ended_is_not_begun_again() -> None:
    worker = Worker(settings=quick())
    life, runner = life_of(worker, DB), worker.runner
    worker.supervisor.releasing(BUCKET)
    worker.supervisor.crashed(runner, ValueError("late"))
    gevent.sleep(0.05)
    assert worker.supervisor.lives() == []
    assert life.end is not None
    assert (life.end.kind, runner.status) == (ExitKind.CANCELED, "ok")


def test_a_vm_that_cant_be_run_is_errored_and_tried_again_while_the_others_run() -> None:
    broken = a_virtual_machine(name="broken", uid="uid-3", slot_bytes=0)
    worker = Worker(a_virtual_machine(), broken, settings=quick())
    key = VmKey("default/broken")
    assert runner_of(worker, DB).is_ready
    worker.until(lambda: life_of(worker, key).failures >= 3)
    assert worker.supervisor.runner(BUCKET, key) is None
    assert life_of(worker, key).previous[0].kind is ExitKind.ERRORED
    assert "slot_bytes" in life_of(worker, key).previous[0].error
    worker.platform.put(a_virtual_machine(name="broken", uid="uid-3"))
    worker.settle()
    worker.until(lambda: runner_of(worker, key).is_ready)


class SilentPlatform:
    """Reads of the real size that never end, for VMs whose name says so."""

    def __init__(self, worker_platform: object) -> None:
        self.read = worker_platform.read_size  # type: ignore[attr-defined]
        self.asked: list[str] = []

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        self.asked.append(vm.name)
        if vm.name.startswith("silent"):
            gevent.sleep(600)
        if vm.name.startswith("bug"):
            raise ZeroDivisionError("in the platform's adapter")
        found: Resources = self.read(vm, timeout_s=timeout_s)
        return found


def test_vms_whose_platform_is_silent_or_fails_delay_no_other_ones_beginning() -> None:
    names = [f"silent-{n}" for n in range(40)] + [f"bug-{n}" for n in range(5)] + ["well"]
    vms = [a_virtual_machine(name=name, uid=f"uid-{name}") for name in names]
    worker = Worker(*vms)
    worker.supervisor.commit(BUCKET, worker.supervisor.runners())
    worker.supervisor.lost(BUCKET)
    worker.platform.read_size = SilentPlatform(worker.platform).read_size  # type: ignore[method-assign]
    worker.supervisor.acquired(BUCKET, worker.guards.token)
    worker.until(lambda: runner_of(worker, VmKey("default/well")).is_ready)
    assert not runner_of(worker, VmKey("default/silent-0")).is_ready
    assert runner_of(worker, VmKey("default/bug-0")).status == "panicked"


def test_a_change_that_one_vm_fails_of_reaches_the_others() -> None:
    worker = two_vms(settings=quick())
    old = runner_of(worker, DB)

    def fail(vm: VirtualMachine) -> None:
        raise ZeroDivisionError("ours")

    old.update_vm = fail  # type: ignore[method-assign]
    for name, uid in (("db", "uid-1"), ("other", "uid-2")):
        worker.platform.put(a_virtual_machine(name=name, uid=uid, max=resources(2_000, 8)))
    worker.settle()
    assert runner_of(worker, OTHER).vm.max == resources(2_000, 8)
    worker.until(lambda: runner_of(worker, DB) is not old)
    assert runner_of(worker, DB).vm.max == resources(2_000, 8)


def test_a_decision_that_fails_ends_its_own_runner_only() -> None:
    worker = two_vms(settings=quick())
    old, other = runner_of(worker, DB), runner_of(worker, OTHER)
    crashes: list[str] = []
    worker.scaling._crashed = lambda runner, err: crashes.append(runner.key)

    def fail() -> object:
        raise ZeroDivisionError("ours")

    old.decide = fail  # type: ignore[method-assign, assignment]
    worker.link._changed = lambda is_there: [worker.scaling.consider(each) for each in (old, other)]  # type: ignore[assignment, func-returns-value]
    decided = other.decided_ms
    other._last_now = other.now() + 1_000  # type: ignore[assignment]
    worker.link._changed(True)
    assert crashes == [DB]
    assert other.decided_ms > decided


@pytest.mark.parametrize(
    ("endpoint", "reason"), [(None, "of the start"), ("ep-1", "its endpoint was assigned")]
)
def test_the_grace_period_counts_from_the_start_or_from_when_the_endpoint_was_assigned(
    endpoint: str | None, reason: str
) -> None:
    clock = FakeClock()
    runner = a_runner(clock, a_virtual_machine())
    clock.advance(15)
    runner.update_vm(a_virtual_machine(endpoint_id=endpoint))
    clock.advance(15)
    runner.update_status()
    assert runner.status == ("stuck" if endpoint is None else "ok")
    clock.advance(6)
    runner.update_status()
    assert runner.status == "stuck"
    assert reason in runner.status_reason


def test_the_time_of_a_status_is_that_of_its_change() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    clock.advance(25)
    runner.update_status()
    changed = runner.status_ms
    assert changed == clock.wall_ms()
    clock.advance(5)
    runner.update_status()
    assert runner.status_ms == changed
