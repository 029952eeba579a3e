"""A worker's services together, on fakes: who is asked for what, in which order, what is written first."""

from __future__ import annotations

import gevent

from app.core.model import Mode
from app.core.resources import resources
from app.errors import PeerRefused, PeerTimedOut
from app.ports.peers import DownscaleAnswer
from app.ports.vm import MonitorPolicy, VmKey
from tests.service_builders import BUCKET, a_virtual_machine, an_intent, load_of
from tests.worker_harness import Worker


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


def test_a_migrating_vm_is_left_alone_on_the_schedulers_word() -> None:
    worker = Worker()
    worker.scheduler.is_migrating = True
    worker.sample(2)
    assert worker.platform.applied == []
    assert any("migrate" in reason for reason in worker.runner.plan.reasons)


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


def test_an_intent_of_a_mode_that_does_not_exist_is_passed_over() -> None:
    worker = Worker(intents=(an_intent("mode", "turbo"),))
    worker.sample(2)
    assert worker.runner.counters.upscales == 1
