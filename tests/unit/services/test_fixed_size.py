from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.core.resources import resources
from app.errors import UsageError
from app.services.fixed_size import FixedSize, check_fixed, for_core, read_fixed
from app.services.record import build_record
from app.services.runner import Runner
from app.services.taking_up import take_up
from tests.core_builders import GIB
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, a_virtual_machine, an_intent, load_of

LOW, HIGH = resources(250, 1), resources(4_000, 16)


def fixed_runner(cpu: int | None = 2_000, mem_gib: int | None = 8, **changes: object) -> Runner:
    """One whose load asks for less, while an operator wants this size."""
    runner = a_runner(FakeClock())
    size = FixedSize(cpu, None if mem_gib is None else mem_gib * GIB)
    take_up([an_intent("resize", size.value, **changes)], [runner])
    runner.take_sample(load_of(0.5))
    runner.decide()
    return runner


def audit(runner: Runner) -> list[tuple[str, str, str]]:
    entries = [json.loads(raw) for raw in runner.audit.take()]
    return [(entry["kind"], entry["who"], entry["why"]) for entry in entries]


def test_the_core_wants_the_fixed_size_whatever_the_load_says() -> None:
    runner = fixed_runner()
    assert runner.decided.desired == resources(2_000, 8)
    runner.take_sample(load_of(3.5))
    assert runner.decide().desired == resources(2_000, 8)


def test_a_field_that_is_not_fixed_goes_on_being_scaled() -> None:
    runner = fixed_runner(cpu=None, mem_gib=8)
    assert runner.decided.desired == resources(500, 8)


def test_the_vms_bounds_go_before_an_operators_word() -> None:
    assert fixed_runner(cpu=9_000, mem_gib=32).decided.desired == HIGH
    runner = fixed_runner()
    runner.update_vm(replace(runner.vm, max=resources(1_000, 4)))
    assert runner.decide().desired == resources(1_000, 4)


def test_new_bounds_do_not_end_it() -> None:
    runner = fixed_runner()
    runner.update_vm(replace(runner.vm, max=resources(3_000, 12)))
    assert runner.decide().desired == resources(2_000, 8)


def test_it_ends_and_the_load_counts_again() -> None:
    runner = fixed_runner()
    take_up([], [runner])
    assert runner.decide().desired == resources(500, 2)


def test_beginning_and_end_are_audited_with_reason_and_author() -> None:
    runner = fixed_runner(until_ms=None)
    ((kind, who, why),) = audit(runner)
    assert (kind, who, why) == ("fixed_by_hand", "ada@ops", "2 CPU, 8 GiB: maintenance")
    take_up([an_intent("resize", "off", author="bob@ops", reason="done")], [runner])
    assert audit(runner) == [("scaled_again", "bob@ops", "done")]


def test_one_that_ends_by_itself_says_so() -> None:
    runner = fixed_runner()
    audit(runner)
    take_up([], [runner])
    assert audit(runner) == [("scaled_again", "worker1", "the time of the size fixed by hand is over")]


def test_a_mode_that_is_given_back_names_who_did_it() -> None:
    runner = a_runner(FakeClock())
    take_up([an_intent("mode", "observe")], [runner])
    audit(runner)
    take_up([an_intent("mode", "default", author="bob@ops", reason="seen enough")], [runner])
    assert audit(runner) == [("mode", "bob@ops", "scale, its own again: seen enough")]


def test_the_sentence_of_the_decision_begins_with_the_operators_word() -> None:
    why = fixed_runner().why()
    assert why.startswith("fixed by hand at 2 CPU, 8 GiB by ada@ops until it is cleared: maintenance; load1 ")
    assert "(by hand)" in why


def test_the_record_shows_it_and_which_wish_it_was() -> None:
    record = build_record(fixed_runner())
    assert record["fixed"] == {
        "cpu_m": 2_000,
        "mem_bytes": 8 * GIB,
        "until_ms": None,
        "reason": "maintenance",
        "author": "ada@ops",
        "since_ms": 1,
    }
    assert record["intents"] == {"resize": "resize-2000 8589934592-default/db"}


@pytest.mark.parametrize(
    "size", [FixedSize(1, None), FixedSize(None, 7), FixedSize(2_000_000_000, 2**53 - 1)]
)
def test_what_is_written_is_read_again(size: FixedSize) -> None:
    assert read_fixed(an_intent("resize", size.value)) == size


@pytest.mark.parametrize(
    "value", ["off", "- -", "", "2000", "0 1", "-1 1", "1e9 1", "1 " + "9" * 17, "²0 1", "1 1\n"]
)
def test_a_value_that_says_no_size_fixes_none(value: str) -> None:
    assert read_fixed(an_intent("resize", value)) is None
    runner = a_runner(FakeClock())
    before = runner.state.vm
    take_up([an_intent("resize", value)], [runner])
    assert runner.state.vm == before


def test_an_intent_of_another_kind_fixes_nothing() -> None:
    assert read_fixed(an_intent("pause", "1 1")) is None
    vm = a_virtual_machine().for_core()
    assert for_core(vm, {"pause": an_intent()}) == vm


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (
            FixedSize(8_000, None),
            "8.0 CPU is out of the VM's bounds: it may have 0.25 CPU, 1 GiB to 4 CPU, 16 GiB",
        ),
        (FixedSize(100, None), "0.1 CPU is out of"),
        (FixedSize(None, 17 * GIB), "17 GiB is out of"),
        (FixedSize(None, GIB // 2), "512 MiB is out of"),
        (FixedSize(None, 5 * GIB // 2), "slots of 1 GiB: 2 GiB or 3 GiB is possible"),
    ],
)
def test_a_size_that_the_vm_cannot_have_is_refused_with_what_it_can(size: FixedSize, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check_fixed(size, LOW, HIGH, GIB)


def test_sizes_at_the_bounds_are_fine() -> None:
    for size in (FixedSize(250, GIB), FixedSize(4_000, 16 * GIB)):
        check_fixed(size, LOW, HIGH, GIB)
