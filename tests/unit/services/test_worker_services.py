"""A worker's services together, on fakes: who is asked for what, in which order, what is written first."""

from __future__ import annotations

import json
from collections.abc import Callable

import gevent
import pytest

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.cluster.ring import BucketSet
from app.core.model import Mode
from app.core.resources import Resources, resources
from app.errors import OwnershipLost, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.peers import DownscaleAnswer
from app.ports.store import BucketName, FencingToken, Intent, VmWrite
from app.ports.vm import Address, MonitorPolicy, VirtualMachine, VmKey
from app.services.executors import Executors
from app.services.runner import Runner
from app.services.scaling import Scaling
from app.services.scheduler_link import SchedulerLink
from app.services.supervisor import Supervisor
from app.services.taking_up import take_up
from app.services.timers import Timers
from tests.fakes.peers import FakeMonitor, FakeScheduler, FakeTaskQueue
from tests.fakes.platform import FakePlatform
from tests.fakes.states import MemoryState
from tests.service_builders import BUCKET, a_virtual_machine, an_intent, load_of, some_settings


class Guards:
    """Leases that are held until told otherwise."""

    def __init__(self) -> None:
        self.token = FencingToken(1)
        self.is_lost = False

    def guard(self, bucket: BucketName) -> Guards:
        self.check()
        return self

    def limit_s(self, setting_s: float) -> float:
        self.check()
        return setting_s or 1.0

    def check(self) -> None:
        if self.is_lost:
            raise OwnershipLost(BUCKET, "the lease has ended")


class NoPages:
    """Samples come by hand here."""

    def fetch(self, address: Address, *, timeout_s: float) -> bytes:
        raise PeerUnreachable("pages", "there are none")

    def forget(self, address: Address) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class LoggedPlatform(FakePlatform):
    """Notes what is asked in the same log as the other peers."""

    def __init__(self, log: list[str], *vms: VirtualMachine) -> None:
        super().__init__(*vms)
        self._order = log
        self.problem: Exception | None = None

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        gevent.sleep(0)
        if self.problem is not None:
            raise self.problem
        super().apply_size(vm, target, token=token, timeout_s=timeout_s)
        self._order.append(f"platform {target.cpu}/{target.mem}")


class Worker:
    """Everything of a worker but Redis and the network."""

    def __init__(
        self, *vms: VirtualMachine, states: MemoryState | None = None, intents: tuple[Intent, ...] = ()
    ) -> None:
        clock, concurrency = SystemClock(), GreenConcurrency()
        self.log: list[str] = []
        self.states = states or MemoryState(clock)
        self.guards = Guards()
        self.platform = LoggedPlatform(self.log, *(vms or (a_virtual_machine(),)))
        self.scheduler = FakeScheduler(self.log)
        self.monitor = FakeMonitor(self.log)
        self.queue = FakeTaskQueue()
        settings = some_settings(monitor_retry_min_wait_s=0.05)
        self.supervisor = Supervisor(
            settings,
            clock,
            concurrency,
            BucketSet(1),
            self.states,
            self.guards,
            (self.platform, self.monitor, NoPages()),
        )
        self.timers = Timers(clock, concurrency, lambda key: None)
        self.link = SchedulerLink(self.scheduler, lambda is_there: None)
        self.link.look()
        executors = Executors(
            settings,
            clock,
            self.guards,
            self._commit,
            (self.link, self.scheduler),
            self.platform,
            self.supervisor.link,
        )
        self.crashes: list[Exception] = []
        self.scaling = Scaling(
            clock,
            concurrency,
            self.timers,
            self.queue,
            executors,
            self._commit,
            lambda runner, err: self.crashes.append(err),
        )
        self.queue.run = self._run_task
        self.supervisor.connect(
            self.scaling.consider,
            self.scaling.forget,
            lambda: self.link.current()[0] is not None,
            lambda bucket, token: self.supervisor.lost(bucket),
        )
        self.supervisor.inventory.take(self.platform.changes(None, wait_s=0))
        self.supervisor.acquired(BUCKET, self.guards.token)
        self.take_up(*intents)
        self.until(lambda: all(runner.is_ready for runner in self.supervisor.runners()))
        self.settle()

    def take_up(self, *intents: Intent) -> None:
        """The owner's tick reads the operators' intents."""
        for runner in take_up(intents, self.supervisor.runners()):
            self.supervisor.relink(runner)
            self.scaling.consider(runner)

    def _commit(self, runner: Runner) -> None:
        self.supervisor.commit(runner.bucket, [runner])

    def _run_task(self, kind: str, bucket: BucketName, key: VmKey) -> None:
        runner = self.supervisor.runner(bucket, key)
        if runner is not None:
            self.scaling.run_task(runner, kind)

    @property
    def runner(self) -> Runner:
        (runner,) = self.supervisor.runners()
        return runner

    def sample(self, cpus: float, mem_gib: float = 0.5) -> None:
        """A sample arrives; what follows from it is done."""
        self.runner.take_sample(load_of(cpus, mem_gib))
        self.runner.decide()
        self.supervisor.commit(BUCKET, [self.runner])
        self.scaling.dispatch(self.runner)
        self.settle()

    def settle(self) -> None:
        """Let everything run that can, the platform's news included."""
        for _ in range(60):
            gevent.sleep(0.001)
            change = self.platform.changes(self.supervisor.inventory._cursor, wait_s=0)
            if change.updated or change.removed:
                self.supervisor.inventory.take(change)

    def until(self, condition: Callable[[], bool]) -> None:
        with gevent.Timeout(10):
            while not condition():
                gevent.sleep(0.002)

    def audit(self) -> list[str]:
        entries = self.states.events(BUCKET, VmKey("default/db"), 100)
        return [json.loads(entry)["kind"] for _, entry in entries]


def test_an_upscale_goes_permit_platform_monitor() -> None:
    worker = Worker()
    worker.log.clear()
    worker.sample(2)
    assert worker.log == ["permit 2000/8", "platform 2000/8", "monitor up 2000/8"]
    assert worker.runner.state.vm.use == resources(2_000, 8)
    assert [kind for kind, _ in worker.queue.sent] == ["upscale"]
    assert worker.runner.counters.upscales == 1


def test_a_downscale_goes_monitor_platform_permit() -> None:
    worker = Worker()
    worker.log.clear()
    worker.sample(0.5)
    assert worker.log == ["monitor down 500/2", "platform 500/2", "permit 500/2"]
    assert worker.runner.state.vm.use == resources(500, 2)
    assert worker.runner.counters.downscales == 1


def test_the_task_says_why_in_a_sentence() -> None:
    worker = Worker()
    worker.sample(2)
    ((_, reason),) = worker.queue.sent
    assert reason.startswith("load1 1.00 / 0.5 = 2.00 CPUs → 2.0 CPU")


def test_the_audit_trail_tells_the_whole_way() -> None:
    worker = Worker()
    worker.sample(2)
    worker.sample(0.5)
    assert worker.audit() == ["added", "upscale", "downscale"]


def test_nothing_leaves_before_its_commit() -> None:
    worker = Worker()
    worker.log.clear()
    worker.runner.take_sample(load_of(2))
    worker.states.is_away = True
    worker.scaling.consider(worker.runner)
    worker.settle()
    assert worker.log == []
    assert not worker.runner.state.plugin.ongoing
    worker.states.is_away = False
    gevent.sleep(0)
    worker.until(lambda: not worker.runner.is_busy)
    assert worker.runner.task_until is None


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


def test_a_task_whose_plan_has_changed_does_nothing() -> None:
    worker = Worker()
    worker.queue.is_lossy = True
    worker.sample(2)
    worker.log.clear()
    worker.runner.take_sample(load_of(1))
    assert worker.scaling.run_task(worker.runner, "upscale") == "the plan has changed"
    worker.settle()
    assert worker.log == []


def test_a_task_that_comes_twice_makes_one_resize() -> None:
    worker = Worker()
    worker.queue.is_lossy = True
    worker.sample(2)
    for _ in range(2):
        gevent.spawn(worker._run_task, "upscale", BUCKET, VmKey("default/db"))
    worker.settle()
    assert worker.log.count("platform 2000/8") == 1


def test_a_denied_downscale_is_counted_and_not_asked_again_within_its_cooldown() -> None:
    worker = Worker()
    worker.monitor.answer = DownscaleAnswer(False, "needs memory")
    worker.log.clear()
    for _ in range(5):
        worker.sample(0.5)
    assert worker.log[0] == "monitor down 500/2"
    assert worker.log.count("monitor down 500/2") == 1
    assert worker.runner.counters.denied >= 1
    assert worker.runner.counters.failed == 0
    assert worker.runner.status == "ok"


def test_a_platform_that_refuses_leaves_the_size_and_is_asked_again_later_only() -> None:
    worker = Worker()
    worker.platform.problem = PeerRefused("platform", "no", code=422)
    worker.sample(2)
    worker.sample(2)
    assert worker.runner.state.vm.use == resources(1_000, 4)
    assert worker.runner.counters.failed == 1
    assert "failed" in worker.audit()


def test_a_platform_that_gives_no_answer_is_looked_at_before_anything_is_concluded() -> None:
    worker = Worker()
    worker.platform.problem = PeerTimedOut("platform", "no answer")
    real = worker.platform.get(VmKey("default/db"))
    worker.platform.put(a_virtual_machine(use=resources(2_000, 8), observed=resources(2_000, 8)))
    worker.sample(2)
    assert real.observed == resources(1_000, 4)
    assert worker.runner.state.vm.use == resources(2_000, 8)


def test_an_accepted_size_that_is_never_applied_stays_an_operation_in_flight() -> None:
    worker = Worker()
    worker.platform.is_applying = False
    worker.sample(2)
    assert worker.runner.awaits_observation
    assert worker.runner.counters.upscales == 0
    worker.platform.settle()
    worker.settle()
    assert worker.runner.counters.upscales == 1
    assert worker.log[-1] == "monitor up 2000/8"


def test_a_request_for_memory_goes_on_at_once_and_at_most_once_a_second() -> None:
    worker = Worker()
    worker.sample(1, mem_gib=1.9)
    worker.log.clear()
    assert worker.monitor.callbacks is not None
    for _ in range(1_000):
        worker.monitor.callbacks.on_upscale_request()
    worker.settle()
    assert worker.log == ["permit 1250/5", "platform 1250/5", "monitor up 1250/5"]


def test_an_observed_vm_is_decided_and_nobody_is_asked() -> None:
    worker = Worker(a_virtual_machine(mode=Mode.OBSERVE))
    worker.sample(3)
    assert worker.log == []
    assert worker.queue.sent == []
    assert worker.scheduler.questions == []
    assert worker.monitor.connections == 0
    assert worker.runner.decided.desired == resources(3_000, 12)


def test_a_vm_without_a_monitor_is_scaled_by_its_samples_alone() -> None:
    worker = Worker(a_virtual_machine(monitor=MonitorPolicy.NONE, monitor_address=None))
    worker.sample(2)
    worker.sample(0.5, mem_gib=0.7)
    assert worker.runner.counters.upscales == 1
    assert worker.runner.counters.downscales == 1
    worker.sample(0.25, mem_gib=1.5)
    assert worker.runner.state.vm.use.mem == 3


def test_a_monitor_that_goes_away_resets_the_core_and_is_dialled_again() -> None:
    worker = Worker()
    first = worker.monitor.connections
    worker.monitor.die()
    worker.until(lambda: worker.monitor.connections > first)
    worker.until(lambda: worker.runner.state.monitor.is_active)
    worker.sample(2)
    assert worker.runner.counters.upscales == 1


def test_a_late_answer_of_an_earlier_connection_does_not_touch_the_core() -> None:
    worker = Worker()

    def reconnect() -> None:
        worker.monitor.before_answer = lambda: None
        worker.monitor.die()
        worker.until(lambda: worker.monitor.connections == 2)
        worker.until(lambda: worker.runner.state.monitor.is_active)

    worker.monitor.before_answer = reconnect
    worker.monitor.answer = DownscaleAnswer(False, "late word")
    worker.runner.take_sample(load_of(0.5))
    worker.scaling.consider(worker.runner)
    worker.until(lambda: worker.monitor.connections == 2 and not worker.runner.is_busy)
    assert worker.runner.state.monitor.is_active


def test_a_late_answer_of_an_earlier_scheduler_does_not_touch_the_core() -> None:
    worker = Worker()
    worker.link.generation += 1
    worker.link._info = None
    permit = worker.runner.state.plugin.permit
    worker.sample(2)
    assert worker.runner.state.plugin.permit == permit


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


def test_a_migrating_vm_is_left_alone_on_the_schedulers_word() -> None:
    worker = Worker()
    worker.scheduler.is_migrating = True
    worker.sample(2)
    assert worker.platform.applied == []
    assert any("migrate" in reason for reason in worker.runner.plan.reasons)


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


def test_a_link_that_is_dropped_in_the_middle_of_a_question_leaves_nothing_in_flight() -> None:
    worker = Worker()
    runner = worker.runner

    def lose_address() -> None:
        worker.monitor.before_answer = lambda: None
        worker.platform.put(a_virtual_machine(monitor_address=None))
        worker.supervisor.inventory.take(worker.platform.changes(None, wait_s=0))

    worker.monitor.before_answer = lose_address
    runner.take_sample(load_of(0.5))
    worker.scaling.consider(runner)
    worker.settle()
    assert runner.state.monitor.ongoing is None
    worker.platform.put(a_virtual_machine())
    worker.settle()
    worker.sample(0.5)
    assert runner.counters.downscales == 1


def test_a_task_that_finds_its_vm_busy_does_not_block_it() -> None:
    worker = Worker()
    worker.runner.is_busy = True
    worker.runner.task_until = worker.runner.started + 3_600
    assert worker.scaling.run_task(worker.runner, "upscale") == "busy"
    worker.runner.is_busy = False
    worker.sample(2)
    assert worker.runner.counters.upscales == 1


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


def test_an_intent_of_a_mode_that_does_not_exist_is_passed_over() -> None:
    worker = Worker(intents=(an_intent("mode", "turbo"),))
    worker.sample(2)
    assert worker.runner.counters.upscales == 1


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
