"""The state dump of a worker: its names, its order, its bounds, and what a failing VM does to the others."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import gevent
import pytest

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.core.snapshot import to_snapshot
from app.errors import PeerTimedOut
from app.ports.runtime import Monotonic
from app.ports.store import BucketName
from app.ports.vm import VmKey
from app.services.pod_state import utc_text
from app.services.state_dump import DumpTimedOut, StateDump
from tests.service_builders import BUCKET, a_virtual_machine, some_settings
from tests.worker_harness import Worker

BUILD = {"version": "1", "gitRevision": "abc", "pythonVersion": "3"}
RFC_3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def dump_of(worker: Worker, *, timeout_s: float = 5.0, is_stopped: bool = False) -> StateDump:
    return StateDump(
        worker.supervisor, worker.link, SystemClock(), lambda: is_stopped, BUILD, timeout_s=timeout_s
    )


def collected(worker: Worker, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump_of(worker, **options).collect(GreenConcurrency()))
    return found


def three_vms() -> Worker:
    return Worker(*(a_virtual_machine(name=name, uid=name) for name in ("b", "c", "a")))


def test_the_dump_has_the_names_of_the_specification() -> None:
    worker = Worker(a_virtual_machine(endpoint_id="ep-1"))
    worker.sample(1)
    dump = collected(worker)
    assert list(dump) == ["stopped", "buildInfo", "pods"]
    assert dump["stopped"] is False
    assert dump["buildInfo"] == BUILD
    (pod,) = dump["pods"]
    assert pod["podName"] == {"name": "db", "namespace": "default"}
    status, runner = pod["status"], pod["runner"]
    assert set(status) == {
        *("startTime", "endState", "previousEndStates", "lastSuccessfulMonitorComm", "vmInfo"),
        *("endpointID", "endpointAssignedAt", "state", "stateUpdatedAt"),
    }
    assert (status["endState"], status["previousEndStates"], status["state"]) == (None, [], "ok")
    assert status["endpointID"] == "ep-1"
    times = ("startTime", "lastSuccessfulMonitorComm", "endpointAssignedAt", "stateUpdatedAt")
    assert all(RFC_3339_UTC.fullmatch(status[name]) for name in times)
    assert (status["vmInfo"]["name"], status["vmInfo"]["namespace"]) == ("db", "default")
    assert set(runner) == {"podIP", "executorState", "scheduler", "monitor", "backgroundWorkerCount"}
    assert runner["podIP"] == "127.0.0.1"
    assert runner["executorState"] == json.loads(json.dumps(to_snapshot(worker.runner.state)))
    assert set(runner["scheduler"]["info"]) == {"name", "uid", "url"}
    assert runner["monitor"] == {"waitersSize": 0}
    assert runner["backgroundWorkerCount"] == 1


def test_pods_are_sorted_by_name() -> None:
    pods = collected(three_vms())["pods"]
    assert [pod["podName"]["name"] for pod in pods] == ["a", "b", "c"]


def test_a_vm_in_a_pod_goes_by_the_pods_name() -> None:
    worker = Worker(
        a_virtual_machine(name="b", uid="b", pod_name="a-pod"), a_virtual_machine(name="a", uid="a")
    )
    pods = collected(worker)["pods"]
    named = [(pod["podName"], pod["status"]["vmInfo"]["name"]) for pod in pods]
    assert named == [
        ({"name": "a", "namespace": "default"}, "a"),
        ({"name": "a-pod", "namespace": "default"}, "b"),
    ]


def test_times_are_utc_to_the_millisecond() -> None:
    assert utc_text(1_769_860_800_123) == "2026-01-31T12:00:00.123Z"


def test_a_worker_that_is_being_stopped_says_so() -> None:
    assert collected(Worker(), is_stopped=True)["stopped"] is True


def test_the_ends_of_a_failed_runner_are_told() -> None:
    worker = Worker(settings=some_settings(restart_min_wait_s=0.01, restart_max_wait_s=0.02))
    old = worker.runner
    worker.supervisor.crashed(old, ZeroDivisionError("ours"))
    worker.until(lambda: worker.runner is not old)
    worker.supervisor.crashed(worker.runner, PeerTimedOut("node-1", "no answer"))
    status = collected(worker)["pods"][0]["status"]
    assert status["state"] == "errored"
    assert status["endState"]["exitKind"] == "errored"
    assert status["endState"]["error"] == "PeerTimedOut: node-1: no answer"
    assert RFC_3339_UTC.fullmatch(status["endState"]["time"])
    assert [end["exitKind"] for end in status["previousEndStates"]] == ["panicked"]


def test_a_vm_that_has_no_runner_is_told_with_the_reason() -> None:
    worker = Worker(a_virtual_machine(), a_virtual_machine(name="broken", slot_bytes=0))
    broken, well = collected(worker)["pods"]
    assert "runner" not in broken
    assert broken["status"]["endState"]["exitKind"] == "errored"
    assert "slot_bytes" in broken["status"]["endState"]["error"]
    assert well["runner"]["executorState"]["version"] == 1


def test_one_vm_that_cant_be_collected_says_why_and_hides_no_other() -> None:
    worker = three_vms()
    broken = worker.supervisor.runner(BUCKET, VmKey("default/b"))
    assert broken is not None
    broken.state = None  # type: ignore[assignment]  # what a bug of ours would leave behind
    pods = collected(worker)["pods"]
    assert ["collectionError" in pod for pod in pods] == [False, True, False]
    assert pods[1]["status"]["state"] == "ok"
    assert "AttributeError" in pods[1]["collectionError"]


class Slow:
    """A link whose look takes so long; a stand-in for anything that hangs."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @property
    def waiters_size(self) -> int:
        gevent.sleep(self.seconds)
        return 7


def test_past_its_time_the_dump_gives_what_could_be_had_and_names_the_rest() -> None:
    worker = three_vms()
    link = worker.supervisor.link
    worker.supervisor.link = lambda runner: Slow(60) if runner.vm.name == "b" else link(runner)  # type: ignore[method-assign, assignment, return-value]
    begun = time.monotonic()
    pods = collected(worker, timeout_s=0.5)["pods"]
    assert time.monotonic() - begun < 20
    assert ["runner" in pod for pod in pods] == [True, False, False]
    assert pods[1]["collectionError"] == "not collected within 0.5 s"
    assert pods[2]["podName"] == {"name": "c", "namespace": "default"}


def test_where_nothing_could_be_had_the_dump_fails_and_says_so() -> None:
    worker = three_vms()
    worker.supervisor.link = lambda runner: Slow(60)  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(DumpTimedOut, match=r"none of 3 VMs could be collected within 0\.3 s"):
        collected(worker, timeout_s=0.3)


def test_a_second_dump_waits_for_the_first_and_gives_up_within_its_own_time() -> None:
    worker = three_vms()
    dump = dump_of(worker, timeout_s=0.5)
    dump._is_busy = True
    with pytest.raises(DumpTimedOut, match="another dump has been under way"):
        dump.collect(GreenConcurrency())
    waiting = gevent.spawn(dump.collect, GreenConcurrency())
    gevent.sleep(0.05)
    dump._is_busy = False
    assert len(json.loads(waiting.get(timeout=30))["pods"]) == 3


def test_a_table_that_changes_while_it_is_read_is_read_again() -> None:
    worker = three_vms()
    lives, failures = worker.supervisor.lives, [1, 2]

    def disturbed() -> Any:
        if failures:
            raise RuntimeError(f"dictionary changed size during iteration {failures.pop()}")
        return lives()

    worker.supervisor.lives = disturbed  # type: ignore[method-assign]
    assert len(collected(worker)["pods"]) == 3


def test_one_vm_or_one_bucket_can_be_asked_for() -> None:
    worker = three_vms()

    def names(**wanted: Any) -> list[str]:
        body = json.loads(dump_of(worker).collect(GreenConcurrency(), **wanted))
        return [pod["podName"]["name"] for pod in body["pods"]]

    assert names(vm=VmKey("default/c")) == ["c"]
    assert names(vm=VmKey("default/d")) == []
    assert names(bucket=BUCKET) == ["a", "b", "c"]
    assert names(bucket=BucketName("autoscaler-bucket-01-of-02")) == []


class TickingClock(SystemClock):
    """A millisecond passes with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> Monotonic:
        self.now += 0.001
        return Monotonic(self.now)


class CountingConcurrency(GreenConcurrency):
    """Counts the pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        super().sleep(0)


def test_the_worker_has_a_turn_after_each_stretch() -> None:
    worker = Worker(*(a_virtual_machine(name=f"vm-{n:03}", uid=f"{n}") for n in range(100)), is_ready=False)
    concurrency = CountingConcurrency()
    dump = StateDump(worker.supervisor, worker.link, TickingClock(), lambda: False, BUILD, timeout_s=60)
    assert len(json.loads(dump.collect(concurrency))["pods"]) == 100
    assert concurrency.pauses >= 30
