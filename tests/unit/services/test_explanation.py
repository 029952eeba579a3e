from dataclasses import replace

import pytest

from app.core.events import MonitorDownscaleDenied, MonitorStartingDownscale
from app.core.model import Millis, Mode
from app.core.resources import resources
from app.errors import InvalidInput, UsageError
from app.ports.vm import VmKey
from app.services.explanation import VmExplanation
from app.services.instructing import Author
from app.services.runner import Runner
from app.services.taking_up import take_up
from tests.fakes.shown_fleet import NOW, ShownFleet, ShownIntents, bucket_of, inspection, instructing
from tests.fakes.shown_records import permit, runner, sample, show, virtual_machine

A = VmKey("ns/a")


def explained(fleet: ShownFleet, vm: Runner) -> VmExplanation:
    return inspection(fleet).explain(show(fleet, vm))


def test_a_decision_led_by_load_shows_its_arithmetic() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 2.1, 1.0)
    explanation = explained(fleet, vm)
    assert explanation.row.why.startswith("load1 2.10 / 0.9 = 2.33 CPUs → 2.25 CPU; ")
    assert (explanation.goal.cpu_units, explanation.goal.mem_units) == (9, 1)
    assert any("load1 2.10" in line and "9 units" in line for line in explanation.lines)


def test_a_decision_led_by_memory_says_so() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 0.1, 6.0)
    assert explained(fleet, vm).row.why.startswith("memory 6 GiB / 0.75 = 8 GiB → 8 GiB; ")


def test_a_goal_beyond_the_bounds_names_the_bound() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 90.0, 1.0)
    assert "→ 4 CPU (its maximum)" in explained(fleet, vm).row.why.replace("4.0", "4")
    sample(vm, 0.0, 0.1)
    assert "→ 0.25 CPU (its minimum)" in explained(fleet, vm).row.why


def test_without_a_sample_the_size_is_kept_and_said() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    vm.decide()
    assert explained(fleet, vm).row.why == "no sample yet: 1 CPU, 4 GiB"


def test_a_permit_that_was_refused_tells_when_it_is_asked_for_again() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 2.1, 1.0)
    permit(vm, resources(2250, 9), resources(1000, 4))
    vm.decide()
    show(fleet, vm)
    fleet.now = Millis(NOW + 500)
    explanation = inspection(fleet).explain(A)
    assert "2.25 CPU, 9 GiB is asked for 2 s after" in explanation.row.why
    assert explanation.look_again_ms == NOW + 2_000
    assert any("until 12:00:02 UTC (1.5 s from now)" in line for line in explanation.lines)


def test_what_held_the_decision_back_and_is_over_by_now_is_kept_apart() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 2.1, 1.0)
    permit(vm, resources(2250, 9), resources(1000, 4))
    vm.decide()
    show(fleet, vm)
    fleet.now = Millis(NOW + 2_000)
    explanation = inspection(fleet).explain(A)
    assert any("is asked for 2 s after" in text for text in explanation.said_then)
    assert not any("is asked for 2 s after" in line for line in explanation.lines)


def test_a_denied_downscale_tells_until_when_the_size_is_held_up() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 0.1, 1.0)
    vm.apply(MonitorStartingDownscale(vm.now(), resources(250, 1)))
    vm.apply(MonitorDownscaleDenied(vm.now()))
    vm.decide()
    explanation = explained(fleet, vm)
    assert explanation.goal.denied_until == NOW + 5_000
    assert any("until 12:00:05 UTC" in line for line in explanation.lines)


def test_a_pause_is_told_with_author_reason_and_end() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 2.1, 1.0)
    instructing(fleet).pause(A, bucket_of(A), for_ms=60_000, author=Author("ada@host", "kernel upgrade"))
    take_up(ShownIntents(fleet).list(bucket_of(A)), [vm])
    vm.decide()
    explanation = explained(fleet, vm)
    assert explanation.obstacles == ("paused by ada@host: kernel upgrade",)
    assert explanation.row.why.endswith("; paused by ada@host: kernel upgrade")
    assert explanation.row.pause is not None
    assert explanation.row.pause.until_ms == NOW + 60_000
    assert explanation.waiting == ()


def test_a_wish_that_the_owner_has_not_taken_up_is_told() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    sample(vm, 2.1, 1.0)
    show(fleet, vm)
    author = Author("ada@host")
    instructing(fleet).pause(A, bucket_of(A), for_ms=None, author=author)
    instructing(fleet).set_mode(A, bucket_of(A), Mode.OBSERVE, author)
    waiting = inspection(fleet).explain(A).waiting
    assert waiting == ("pause, wanted by ada@host", "mode observe, wanted by ada@host")


def test_a_resume_that_the_owner_has_not_taken_up_is_told() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    desk = instructing(fleet)
    desk.pause(A, bucket_of(A), for_ms=None, author=Author("ada@host"))
    take_up(ShownIntents(fleet).list(bucket_of(A)), [vm])
    show(fleet, vm)
    desk.resume(A, bucket_of(A), Author("bob@host"))
    assert inspection(fleet).explain(A).waiting == ("resume",)
    take_up(ShownIntents(fleet).list(bucket_of(A)), [vm])
    show(fleet, vm)
    assert inspection(fleet).explain(A).waiting == ()


def test_an_observed_vm_is_explained_without_obstacles() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A, vm=replace(virtual_machine(A), mode=Mode.OBSERVE))
    sample(vm, 1.7, 1.0)
    assert explained(fleet, vm).row.why == "load1 1.70 / 0.9 = 1.89 CPUs → 2.0 CPU"


def test_an_unknown_vm_and_a_broken_snapshot_are_said_in_one_line() -> None:
    fleet = ShownFleet()
    with pytest.raises(UsageError, match="unknown VM ns/a"):
        inspection(fleet).explain(A)
    show(fleet, runner(fleet, A), snapshot={"version": 99})
    with pytest.raises(InvalidInput, match="version"):
        inspection(fleet).explain(A)


def test_a_name_is_resolved_only_with_the_fleets_own_number_of_buckets() -> None:
    fleet = ShownFleet()
    show(fleet, runner(fleet, A))
    assert inspection(fleet).resolve("a") == inspection(fleet).resolve("ns/a") == A
    fleet.total = 16
    with pytest.raises(UsageError, match="4 buckets, the fleet has 16"):
        inspection(fleet).resolve("a")


def test_a_vm_that_its_owner_leaves_alone_is_said_to_be() -> None:
    fleet = ShownFleet()
    vm = runner(fleet, A)
    assert not any("left alone" in text for text in explained(fleet, vm).obstacles)
    fleet.add_agent("worker", "older", left_alone=[A])
    assert explained(fleet, vm).obstacles[0].startswith("left alone by older: a newer version than its own")
