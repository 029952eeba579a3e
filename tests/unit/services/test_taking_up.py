from __future__ import annotations

import json

from app.services.taking_up import ALL_VMS, take_up
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, an_intent


def test_an_intent_is_taken_up_once_and_audited_with_its_author() -> None:
    runner = a_runner(FakeClock())
    assert take_up([an_intent()], [runner]) == [runner]
    assert take_up([an_intent()], [runner]) == []
    (entry,) = [json.loads(raw) for raw in runner.audit.take()]
    assert (entry["kind"], entry["who"], entry["why"]) == ("paused", "ada@ops", "maintenance")


def test_an_intent_that_is_gone_no_longer_stands() -> None:
    runner = a_runner(FakeClock())
    take_up([an_intent()], [runner])
    runner.audit.take()
    take_up([], [runner])
    assert runner.pause is None
    (entry,) = [json.loads(raw) for raw in runner.audit.take()]
    assert (entry["kind"], entry["who"]) == ("resumed", "worker1")


def test_a_vms_own_word_goes_before_that_for_all() -> None:
    runner = a_runner(FakeClock())
    take_up([an_intent(target=ALL_VMS)], [runner])
    assert runner.pause is not None
    runner.audit.take()
    take_up([an_intent(target=ALL_VMS), an_intent(value="off", author="bob@ops")], [runner])
    assert runner.pause is None
    (entry,) = [json.loads(raw) for raw in runner.audit.take()]
    assert (entry["kind"], entry["who"]) == ("resumed", "bob@ops")


def test_an_intent_for_another_vm_changes_nothing_here() -> None:
    runner = a_runner(FakeClock())
    assert take_up([an_intent(target="default/other")], [runner]) == []


def test_a_mode_is_told_to_the_core_at_once() -> None:
    runner = a_runner(FakeClock())
    take_up([an_intent("mode", "observe")], [runner])
    assert runner.state.mode == "observe"
