from __future__ import annotations

import gevent
import pytest
from gevent.event import Event

from app.adapters.green import GreenConcurrency
from app.errors import InternalError, StoreUnavailable
from app.ports.store import VmWrite
from app.services.committing import MAX_VMS_A_CALL, BucketCommitter
from app.services.runner import Runner
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, a_virtual_machine


def no_failure(runner: Runner, err: Exception) -> None:
    raise AssertionError(f"{runner.key} failed") from err


def runners(count: int) -> list[Runner]:
    clock = FakeClock()
    return [a_runner(clock, a_virtual_machine(name=f"db-{index}")) for index in range(count)]


def test_a_commit_carries_the_record_and_the_audit_entries() -> None:
    calls: list[list[VmWrite]] = []
    (runner,) = runners(1)
    runner.note("upscale", None, None, "load", "observed")
    BucketCommitter(calls.append, GreenConcurrency(), no_failure).commit([runner])
    ((write,),) = calls
    assert write.key == runner.key
    assert write.record is not None
    assert len(write.events) == 1


def test_many_vms_go_in_calls_of_at_most_250() -> None:
    calls: list[list[VmWrite]] = []
    BucketCommitter(calls.append, GreenConcurrency(), no_failure).commit(runners(MAX_VMS_A_CALL + 10))
    assert [len(call) for call in calls] == [MAX_VMS_A_CALL, 10]


def test_who_asks_during_a_commit_joins_the_next_one() -> None:
    calls: list[list[VmWrite]] = []
    gate = Event()

    def slow(writes: list[VmWrite]) -> None:
        calls.append(writes)
        gate.wait()

    committer = BucketCommitter(slow, GreenConcurrency(), no_failure)
    jobs = [gevent.spawn(committer.commit, [runner]) for runner in runners(6)]
    gevent.sleep(0)
    assert len(calls) == 1
    gate.set()
    gevent.joinall(jobs, timeout=5, raise_error=True)
    assert [len(call) for call in calls] == [1, 5]


def test_a_commit_that_fails_says_so_to_each_who_was_in_it_and_keeps_the_audit_entries() -> None:
    failing = [True]
    written: list[VmWrite] = []
    gate = Event()

    def send(writes: list[VmWrite]) -> None:
        gate.wait()
        if failing[0]:
            raise StoreUnavailable("redis", "no answer")
        written.extend(writes)

    committer = BucketCommitter(send, GreenConcurrency(), no_failure)
    both = runners(2)
    for runner in both:
        runner.note("upscale", None, None, "load", "observed")
    jobs = [gevent.spawn(committer.commit, [runner]) for runner in both]
    gevent.sleep(0)
    gate.set()
    gevent.joinall(jobs, timeout=5)
    assert [type(job.exception) for job in jobs] == [StoreUnavailable, StoreUnavailable]
    failing[0] = False
    committer.commit(both)
    assert [len(write.events) for write in written] == [1, 1]


def test_after_a_failed_commit_the_next_one_works() -> None:
    outcomes = [StoreUnavailable("redis", "no answer"), None]

    def send(writes: list[VmWrite]) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    committer = BucketCommitter(send, GreenConcurrency(), no_failure)
    with pytest.raises(StoreUnavailable):
        committer.commit(runners(1))
    committer.commit(runners(1))
    assert outcomes == []


def test_a_runner_of_which_no_record_can_be_made_keeps_no_other_from_being_written() -> None:
    calls: list[list[VmWrite]] = []
    failed: list[str] = []
    good, bad, other = runners(3)
    bad.counters = None  # type: ignore[assignment]  # what a bug of ours would leave behind
    committer = BucketCommitter(
        calls.append, GreenConcurrency(), lambda runner, err: failed.append(runner.key)
    )
    committer.commit([good, bad, other])
    assert [[write.key for write in call] for call in calls] == [[good.key, other.key]]
    assert failed == [bad.key]


def test_whoever_asked_for_that_runner_alone_must_begin_no_effect() -> None:
    calls: list[list[VmWrite]] = []
    (bad,) = runners(1)
    bad.counters = None  # type: ignore[assignment]
    with pytest.raises(InternalError, match="no record"):
        BucketCommitter(calls.append, GreenConcurrency(), lambda runner, err: None).commit([bad])
    assert calls == []
