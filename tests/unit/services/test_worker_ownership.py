"""A worker's services together, on fakes: what begins, ends, moves to another owner, and what then holds."""

from __future__ import annotations

import json

import gevent
import pytest

from app.core.resources import resources
from app.errors import OwnershipLost
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import VmKey
from tests.service_builders import BUCKET, a_virtual_machine, an_intent, load_of
from tests.worker_harness import Worker


def test_a_task_that_gets_lost_is_sent_again_once_its_mark_has_expired() -> None:
    worker = Worker()
    worker.queue.is_lossy = True
    worker.sample(2)
    worker.sample(2)
    assert len(worker.queue.sent) == 1
    worker.queue.is_lossy = False
    worker.runner.task_until = worker.runner.started
    worker.sample(2)
    assert worker.runner.counters.upscales == 1


def test_work_stops_when_the_lease_is_lost() -> None:
    worker = Worker()
    worker.log.clear()
    worker.guards.is_lost = True
    worker.runner.take_sample(load_of(2))
    worker.scaling.consider(worker.runner)
    worker.settle()
    assert worker.log == []
    assert not worker.runner.is_busy


def test_a_bucket_whose_write_is_refused_for_its_old_token_is_let_go() -> None:
    worker = Worker()
    worker.log.clear()
    worker.states.raise_fence(BUCKET, FencingToken(9))
    worker.runner.take_sample(load_of(2))
    worker.scaling.consider(worker.runner)
    worker.settle()
    assert worker.log == []
    assert worker.supervisor.runners() == []


def test_a_new_owner_goes_on_from_the_record_and_the_real_size() -> None:
    first = Worker()
    first.platform.is_applying = False
    first.sample(2)
    real = a_virtual_machine(use=resources(2_000, 8), observed=resources(2_000, 8))
    second = Worker(real, states=first.states)
    runner = second.runner
    assert runner.state.vm.use == resources(2_000, 8)
    assert runner.state.platform.ongoing is None
    assert runner.state.metrics is None
    assert runner.state.plugin.permit is not None
    second.sample(2)
    assert second.runner.state.vm.use == resources(2_000, 8)
    assert "taken_over" in second.audit()


def test_an_old_owner_can_write_nothing_more() -> None:
    first = Worker()
    first.states.raise_fence(BUCKET, FencingToken(9))
    with pytest.raises(OwnershipLost):
        first.supervisor.commit(BUCKET, [first.runner])


def test_a_deleted_vm_ends_its_runner_and_its_record() -> None:
    worker = Worker()
    worker.sample(1)
    worker.platform.delete(VmKey("default/db"))
    worker.settle()
    assert worker.supervisor.runners() == []
    assert worker.states.load(BUCKET) == {}
    assert worker.audit()[-1] == "deleted"


def test_a_vm_that_went_while_nobody_owned_its_bucket_leaves_no_record() -> None:
    first = Worker()
    first.sample(1)
    second = Worker(a_virtual_machine(name="web"), states=first.states)
    second.settle()
    second.supervisor.commit(BUCKET, [second.runner])
    assert list(second.states.load(BUCKET)) == ["default/web"]


def test_a_hand_over_saves_and_closes() -> None:
    worker = Worker()
    worker.sample(2)
    worker.supervisor.releasing(BUCKET)
    assert worker.supervisor.runners() == []
    worker.until(lambda: worker.monitor.exited)
    record = json.loads(worker.states.load(BUCKET)[VmKey("default/db")])
    assert record["snapshot"]["vm"]["cpu_m"]["use"] == 2_000


def test_our_own_failure_in_one_vm_is_told_and_leaves_it_free() -> None:
    worker = Worker()

    def explode(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("ours")

    worker.scheduler.ask = explode  # type: ignore[assignment, method-assign]
    worker.sample(2)
    assert isinstance(worker.crashes[0], ZeroDivisionError)
    assert not worker.runner.is_busy


def test_a_new_owner_asks_nobody_before_it_has_read_the_operators_intents() -> None:
    observed = an_intent("mode", "observe")
    first = Worker(intents=(observed,))
    second = Worker(states=first.states, intents=(observed,))
    second.sample(3)
    assert second.log == []
    assert second.scheduler.questions == []
    assert second.monitor.connections == 0


def test_a_new_vm_of_a_paused_bucket_is_not_resized_before_the_first_tick() -> None:
    small = a_virtual_machine(min=resources(2_000, 8))
    worker = Worker(small, intents=(an_intent(target="*"),))
    worker.sample(3)
    assert worker.platform.applied == []


def test_a_new_owner_goes_by_the_bounds_of_today() -> None:
    first = Worker()
    first.sample(1)
    second = Worker(a_virtual_machine(max=resources(500, 2)), states=first.states)
    assert second.runner.state.vm.max == resources(500, 2)


def test_nothing_is_asked_while_the_real_size_cannot_be_read_after_a_take_over() -> None:
    first = Worker()
    first.sample(2)
    platform = first.platform
    platform.is_down = True
    first.supervisor.lost(BUCKET)
    first.log.clear()
    first.scheduler.questions.clear()
    first.supervisor.acquired(BUCKET, first.guards.token)
    first.take_up()
    for _ in range(20):
        gevent.sleep(0.002)
    assert not first.runner.is_ready
    assert first.scheduler.questions == []
    platform.is_down = False
    first.until(lambda: first.runner.is_ready)


def test_a_vm_that_went_during_the_commit_is_not_patched_nor_is_its_successor() -> None:
    worker = Worker()
    worker.log.clear()
    commit = worker.states.commit

    def swap_during_commit(bucket: BucketName, token: FencingToken, writes: list[VmWrite]) -> None:
        commit(bucket, token, writes)
        if worker.runner.state.platform.ongoing is not None and worker.runner.vm.uid == "uid-1":
            worker.platform.put(a_virtual_machine(uid="uid-2"))
            worker.supervisor.inventory.take(worker.platform.changes(None, wait_s=0))

    worker.states.commit = swap_during_commit  # type: ignore[method-assign, assignment]
    worker.sample(2)
    assert worker.runner.vm.uid == "uid-2"
    assert worker.platform.applied == []


def test_a_failed_runner_begins_anew_with_its_counters_and_its_permit() -> None:
    worker = Worker()
    worker.sample(2)
    old = worker.runner
    old.started -= 3_600
    worker.supervisor.crashed(old, ZeroDivisionError("ours"))
    worker.supervisor.crashed(old, ZeroDivisionError("ours"))
    worker.until(lambda: worker.runner is not old)
    worker.take_up()
    worker.until(lambda: worker.runner.is_ready)
    assert worker.runner.counters.upscales == 1
    assert worker.runner.state.plugin.permit == resources(2_000, 8)
    worker.until(lambda: worker.runner.state.monitor.is_active)


def test_a_successor_of_the_same_name_keeps_its_record_when_its_forerunners_is_deleted() -> None:
    worker = Worker()
    worker.sample(1)
    worker.platform.put(a_virtual_machine(uid="uid-2"))
    worker.settle()
    worker.take_up()
    worker.sample(1)
    record = json.loads(worker.states.load(BUCKET)[VmKey("default/db")])
    assert record["uid"] == "uid-2"


def test_nothing_is_begun_for_a_bucket_that_is_being_handed_over() -> None:
    worker = Worker()
    runner = worker.runner
    runner.is_leaving = True
    worker.log.clear()
    runner.take_sample(load_of(3))
    worker.scaling.consider(runner)
    worker.settle()
    assert worker.log == []
