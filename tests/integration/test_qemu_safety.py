"""Guests in trouble behind a fake QMP server; tests/vm has the same on a real VM."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.resources import Resources, resources
from app.errors import PeerRefused
from tests.fakes.qemu_fleet import OOM_HOLD_S, QemuFleet
from tests.fakes.qemu_machine import MIB, FakeMachine
from tests.fleet_process import until

LEAST, MOST = resources(250, 1), resources(4000, 8)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[QemuFleet]:
    with QemuFleet(tmp_path, "a") as started:
        yield started


@pytest.fixture
def machine(fleet: QemuFleet) -> FakeMachine:
    return fleet.qemus["a"].machine


def size(fleet: QemuFleet) -> Resources:
    return fleet.platform.read_size(fleet.vm(), timeout_s=30)


def test_a_growing_hog_at_the_maximum_neither_shrinks_nor_outgrows_the_vm(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    machine.used = machine.total - machine.kernel - 5 * MIB
    with pytest.raises(PeerRefused, match="needs the memory"):
        fleet.apply(fleet.vm(), 1000, 4)
    with pytest.raises(PeerRefused) as caught:
        fleet.apply(fleet.vm(), 1000, 9)
    assert caught.value.code == 422
    assert (machine.size, machine.requested) == (7168 * MIB, 7168 * MIB)
    assert (fleet.vm().use, size(fleet)) == (resources(1000, 8), resources(1000, 8))


def test_a_shrink_under_load_follows_the_hog_as_it_grows(fleet: QemuFleet, machine: FakeMachine) -> None:
    """Each attempt leaves what is used then; the hog that grew in between is never pressed."""
    fleet.apply(fleet.vm(), 4000, 8)
    for used in (1500, 3000, 4500):
        machine.used = used * MIB
        before = machine.total
        fleet.apply(fleet.vm(), 1000, 1)
        assert machine.total >= (used + 48) * MIB or machine.total == before
        fleet.apply(fleet.vm(), 4000, 8)
    assert machine.total == 8192 * MIB


def test_after_an_oom_the_floor_is_the_maximum_for_a_while(
    fleet: QemuFleet, machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    assert fleet.vm().min == LEAST
    machine.oom_kills, machine.oom_age_s = 1, 0.5
    with caplog.at_level(logging.WARNING):
        assert fleet.vm().min == Resources(LEAST.cpu, MOST.mem)
        fleet.vm()
    told = [text for text in caplog.messages if text.startswith("the guest ran out of memory")]
    assert len(told) == 1
    fleet.apply(fleet.vm(), 1000, 8)
    with pytest.raises(PeerRefused) as caught:
        fleet.apply(fleet.vm(), 1000, 4)
    assert caught.value.code == 422


def test_the_floor_comes_down_again_and_is_known_to_a_worker_that_comes_later(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    machine.oom_kills, machine.oom_age_s = 1, OOM_HOLD_S - 5
    with QemuFleet.sharing(fleet) as later:
        assert later.vm().min.mem == MOST.mem
        machine.oom_age_s = OOM_HOLD_S + 1
        until(lambda: later.vm().min == LEAST, "the floor is down")
    assert fleet.vm().min == LEAST


def test_kills_that_node_exporter_counts_raise_the_floor_too(fleet: QemuFleet, machine: FakeMachine) -> None:
    machine.oom_kills = 7
    assert fleet.vm().min == LEAST
    machine.oom_kills = 8
    assert fleet.vm().min.mem == MOST.mem


def test_a_count_that_begins_anew_is_a_reboot_and_no_kill(fleet: QemuFleet, machine: FakeMachine) -> None:
    machine.oom_kills = 7
    fleet.vm()
    machine.reboot()
    assert fleet.vm().min == LEAST


def test_a_daemon_that_hangs_in_the_middle_of_a_shrink_gets_its_memory_back(
    fleet: QemuFleet, machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    vm = fleet.vm()
    machine.resists_below = 5 * 1024 * MIB

    def hang(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            machine.is_silent = True

    machine.watchers.append(hang)
    with caplog.at_level(logging.WARNING):
        fleet.apply(vm, 1000, 2, timeout_s=15)
    assert machine.requested == machine.size == 7168 * MIB
    assert "shrink stopped" in caplog.messages
    machine.watchers.clear()
    machine.is_silent = False
    until(lambda: fleet.vm().observed == resources(1000, 8), "it is read again")


def test_a_shrink_goes_in_steps_that_leave_half_of_what_can_be_spared(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    machine.used = 200 * MIB
    asked: list[int] = []

    def note(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            asked.append(int(str(given["value"])))

    machine.watchers.append(note)
    fleet.apply(fleet.vm(), 1000, 1, timeout_s=30)
    assert asked[-1] == machine.size == 0
    assert len(asked) >= 3
    available = machine.base + 7168 * MIB - machine.kernel - machine.used
    for size, following in zip([7168 * MIB, *asked], asked, strict=False):
        left = available - (7168 * MIB - size)
        assert following >= size - max(left // 2, 1024 * MIB)


def test_cpus_are_taken_away_also_where_the_memory_can_t_be(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 4000, 8)
    machine.used = machine.total - machine.kernel - 20 * MIB
    fleet.apply(fleet.vm(), 1000, 2)
    assert size(fleet) == resources(1000, 8)
    machine.used = 100 * MIB
    machine.resists_below = 6 * 1024 * MIB
    fleet.apply(fleet.vm(), 4000, 8)
    fleet.apply(fleet.vm(), 2000, 2, timeout_s=5)
    assert size(fleet) == resources(2000, 6)


def test_a_shrink_that_ends_half_way_leaves_whole_slots(fleet: QemuFleet, machine: FakeMachine) -> None:
    """A part of a slot that is still there would not be seen, and the shrink would count as done."""
    fleet.apply(fleet.vm(), 1000, 8)
    machine.resists_below = 2 * 1024 * MIB + 100 * MIB
    fleet.apply(fleet.vm(), 1000, 2, timeout_s=4)
    assert machine.requested == machine.size == 2048 * MIB
    assert size(fleet) == resources(1000, 3)


def test_a_stopped_shrink_that_takes_back_a_part_of_a_slot_is_not_done(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    """Growing by that part takes a busy guest seconds; meanwhile what is there counts as a whole slot."""
    fleet.apply(fleet.vm(), 1000, 8)
    fleet.apply(fleet.vm(), 1000, 2)
    machine.size, machine.requested = 1124 * MIB, 2048 * MIB
    assert size(fleet) == resources(1000, 3)
    machine.size = machine.requested = 1124 * MIB
    assert size(fleet) == resources(1000, 3)


def test_what_the_guest_needs_is_left_in_whole_slots(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    machine.used = 1700 * MIB
    fleet.apply(fleet.vm(), 1000, 1)
    assert machine.requested == machine.size == 1024 * MIB
    assert size(fleet) == resources(1000, 2)


def test_no_step_of_a_shrink_looks_like_its_end(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    asked: list[int] = []

    def note(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            asked.append(int(str(given["value"])))

    machine.watchers.append(note)
    fleet.apply(fleet.vm(), 1000, 2)
    assert asked[-1] == 1024 * MIB
    assert all(each % (1024 * MIB) == 0 for each in asked)


def test_a_guest_that_misses_one_question_keeps_what_it_has_meanwhile(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    vm = fleet.vm()
    machine.is_applying = False
    seen: list[int] = []

    def hang(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            seen.append(machine.requested)
            machine.is_silent = len(seen) == 1

    machine.watchers.append(hang)
    fleet.apply(vm, 1000, 2, timeout_s=20)
    assert seen[0] < 7168 * MIB
    assert seen[1] == 7168 * MIB


def test_a_vm_that_reboots_in_the_middle_of_a_resize_is_brought_there_by_the_next(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    vm = fleet.vm()

    def reboot(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "identity":
            machine.reboot()

    machine.watchers.append(reboot)
    fleet.apply(vm, 3000, 4)
    assert (fleet.vm().use, size(fleet)) == (resources(3000, 4), resources(1000, 4))
    machine.watchers.clear()
    fleet.apply(fleet.vm(), 3000, 4)
    assert size(fleet) == resources(3000, 4)


def test_a_vm_that_is_down_in_the_middle_of_a_resize_is_never_taken_for_resized(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    """Between its reset and its daemon's start a guest says nothing."""
    vm = fleet.vm()

    def reset(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            machine.reboot()
            machine.put_delay.clear()

    machine.watchers.append(reset)
    fleet.apply(vm, 3000, 4, timeout_s=3)
    machine.put_delay.set()
    machine.watchers.clear()
    until(lambda: fleet.vm().observed == resources(1000, 4) or machine.online == 3, "it is seen as it is")
    fleet.apply(fleet.vm(), 3000, 4)
    assert size(fleet) == resources(3000, 4)
