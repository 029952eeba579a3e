from __future__ import annotations

import json

from app.core.events import MonitorReset, PlatformStarting, PluginStarting, PluginSuccessful
from app.core.model import Mode
from app.core.resources import resources
from app.ports.runtime import Monotonic
from app.ports.vm import MonitorPolicy
from app.services.runner import Runner
from app.services.scaling_kind import scaling_kind
from app.services.tracking import Operation
from tests.core_builders import UNIT
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, a_virtual_machine, an_intent, load_of, some_settings

BIGGER = resources(2_000, 8)


def begin_resize(runner: Runner, clock: FakeClock, target=BIGGER) -> None:
    runner.apply(PluginStarting(runner.now(), target))
    runner.apply(PluginSuccessful(runner.now(), target, UNIT))
    runner.apply(PlatformStarting(target))
    deadline = Monotonic(clock.monotonic() + 30)
    now = runner.now()
    runner.operation = Operation("upscale", runner.state.vm.use, target, "load", now, now, deadline, True)


def audit_kinds(runner: Runner) -> list[str]:
    return [json.loads(entry)["kind"] for entry in runner.audit.take()]


def test_an_accepted_size_is_no_resize_until_it_is_observed() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    begin_resize(runner, clock)
    runner.observe(resources(1_000, 4))
    assert runner.counters.upscales == 0
    assert runner.state.vm.use == resources(1_000, 4)
    runner.observe(BIGGER)
    assert runner.counters.upscales == 1
    assert runner.state.vm.use == BIGGER
    assert runner.operation is None


def test_a_size_applied_in_part_is_taken_in_while_the_rest_is_awaited() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    begin_resize(runner, clock)
    runner.observe(resources(2_000, 4))
    assert runner.state.vm.use == resources(2_000, 4)
    assert runner.awaits_observation


def test_a_size_not_observed_in_time_is_not_applied_and_the_permit_is_given_back() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.take_sample(load_of(2))
    begin_resize(runner, clock)
    clock.advance(31)
    assert runner.check_overdue()
    assert not runner.check_overdue()
    assert runner.counters.not_applied == 1
    assert "not_applied" in audit_kinds(runner)
    plan = runner.decide()
    assert plan.platform is None
    assert plan.plugin is not None
    assert plan.plugin.target == runner.state.vm.use
    assert any("not applied" in reason for reason in plan.reasons)


def test_a_resize_that_was_given_up_and_then_seen_counts_as_done() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    begin_resize(runner, clock)
    clock.advance(31)
    runner.check_overdue()
    runner.observe(BIGGER)
    assert runner.counters.upscales == 1
    assert runner.operation is None


def test_a_foreign_resize_is_taken_in_and_named() -> None:
    runner = a_runner(FakeClock())
    runner.observe(BIGGER)
    assert runner.state.vm.use == BIGGER
    assert audit_kinds(runner) == ["observed"]


def test_a_page_that_cannot_be_believed_leaves_the_last_sample_and_is_told_once() -> None:
    runner = a_runner(FakeClock())
    sample = load_of(1)
    runner.take_sample(sample)
    for _ in range(3):
        runner.reject_sample("node_load1: is not finite")
    assert runner.state.metrics == sample
    assert runner.sampling.failures == 3
    assert audit_kinds(runner) == ["metrics_rejected"]
    runner.take_sample(sample)
    assert audit_kinds(runner) == ["metrics_ok"]


def test_a_paused_vm_begins_no_resize_and_says_by_whom() -> None:
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(3))
    assert scaling_kind(runner.state, runner.decide()) == "upscale"
    runner.intents["pause"] = an_intent()
    plan = runner.decide()
    assert plan.platform is None
    assert plan.plugin is None or plan.plugin.target == runner.state.vm.use
    assert any("paused by ada@ops" in reason for reason in plan.reasons)
    assert plan.desired == runner.decided.desired != runner.state.vm.use


def test_a_paused_vm_still_ticks_the_scheduler_with_the_size_in_use() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.take_sample(load_of(3))
    runner.intents["pause"] = an_intent()
    clock.advance(20)
    plan = runner.decide()
    assert plan.plugin is not None
    assert plan.plugin.target == runner.state.vm.use


def test_an_observed_vm_is_decided_and_nothing_is_asked() -> None:
    clock = FakeClock()
    vm = a_virtual_machine(mode=Mode.OBSERVE, monitor=MonitorPolicy.NONE)
    runner = Runner(vm, a_runner(clock).bucket, some_settings(), clock)
    runner.is_ready = runner.has_intents = True
    runner.take_sample(load_of(3))
    plan = runner.decide()
    assert not plan.has_requests
    assert plan.wait is None
    assert plan.desired == resources(3_000, 12)
    assert not runner.state.monitor.is_active


def test_the_operators_mode_goes_before_the_platforms() -> None:
    runner = a_runner(FakeClock())
    runner.intents["mode"] = an_intent("mode", "observe")
    runner.set_mode()
    assert runner.is_observed
    assert runner.state.mode is Mode.OBSERVE
    del runner.intents["mode"]
    runner.set_mode()
    assert runner.state.mode is Mode.SCALE


def test_nothing_is_made_smaller_before_a_fresh_sample() -> None:
    runner = a_runner(FakeClock(), a_virtual_machine(max=resources(500, 2)))
    plan = runner.decide()
    assert plan.monitor_downscale is None
    assert any("fresh sample" in reason for reason in plan.reasons)
    runner.take_sample(load_of(0.1))
    assert runner.decide().monitor_downscale is not None


def test_nothing_is_asked_while_the_vm_migrates() -> None:
    runner = a_runner(FakeClock())
    runner.take_sample(load_of(3))
    runner.update_vm(a_virtual_machine(migrating=True))
    assert not runner.decide().has_requests
    runner.update_vm(a_virtual_machine(migrating=False))
    assert runner.decide().has_requests


def test_a_vm_whose_monitor_is_silent_is_stuck_and_recovers_with_its_first_word() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.update_status()
    assert runner.status == "ok"
    clock.advance(21)
    runner.update_status()
    runner.update_status()
    assert runner.status == "stuck"
    assert audit_kinds(runner) == ["stuck"]
    runner.monitor_answered()
    runner.update_status()
    assert runner.status == "ok"


def test_a_vm_without_a_monitor_is_never_stuck_for_want_of_its_word() -> None:
    clock = FakeClock()
    runner = a_runner(clock, a_virtual_machine(monitor=MonitorPolicy.NONE, monitor_address=None))
    clock.advance(1_000)
    runner.update_status()
    assert runner.status == "ok"


def test_a_vm_that_is_scaled_again_has_time_anew_to_hear_of_its_monitor() -> None:
    clock = FakeClock()
    for excused, scaled in (({"migrating": True}, {}), ({"mode": Mode.OBSERVE}, {})):
        for has_answered in (False, True):
            runner = a_runner(clock)
            if has_answered:
                runner.monitor_answered()
            runner.update_vm(a_virtual_machine(**excused))
            clock.advance(1_000)
            runner.update_status()
            runner.update_vm(a_virtual_machine(**scaled))
            clock.advance(19)
            runner.update_status()
            assert runner.status == "ok"
            clock.advance(2)
            runner.update_status()
            assert runner.status == "stuck"


def test_the_first_sample_makes_a_vm_without_a_monitor_active() -> None:
    runner = a_runner(FakeClock(), a_virtual_machine(monitor=MonitorPolicy.NONE, monitor_address=None))
    runner.apply(MonitorReset())
    runner.take_sample(load_of(1))
    assert runner.state.monitor.is_active


def test_now_never_goes_back() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    before = runner.now()
    clock.step_wall(-3_600)
    assert runner.now() == before


def test_the_same_question_again_after_a_refusal_needs_no_task() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    runner.take_sample(load_of(3))
    wanted = runner.decide().plugin
    assert wanted is not None
    runner.apply(PluginStarting(runner.now(), wanted.target))
    runner.apply(PluginSuccessful(runner.now(), resources(1_000, 4), UNIT))
    clock.advance(5)
    again = runner.decide()
    assert again.plugin is not None
    assert scaling_kind(runner.state, again) is None


def test_an_observed_vm_keeps_no_resize_that_may_not_be_tried_again() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    begin_resize(runner, clock)
    runner.intents["mode"] = an_intent("mode", "observe")
    runner.set_mode()
    assert runner.operation is not None
    clock.advance(31)
    assert runner.check_overdue()
    assert runner.operation is None


def test_a_pause_ends_a_resize_that_was_given_up_before() -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    begin_resize(runner, clock)
    clock.advance(31)
    runner.check_overdue()
    assert runner.operation is not None
    runner.intents["pause"] = an_intent()
    runner.set_mode()
    assert runner.operation is None


def test_the_same_refusal_again_and_again_is_one_entry_of_the_trail() -> None:
    runner = a_runner(FakeClock())
    for needed in range(100):
        runner.note("denied", BIGGER, resources(1_000, 4), f"needs {needed} MiB", "denied")
    assert audit_kinds(runner) == ["denied"]
    assert runner.last is not None
    assert runner.last["why"] == "needs 99 MiB"
