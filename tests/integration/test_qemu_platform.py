"""The platform `qemu` on faked QEMUs: VMs in trouble, fencing, partial and guarded resizes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.model import Mode, ScalingConfig
from app.core.resources import Resources, resources
from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.platform import InventoryChange
from app.ports.vm import Address, MonitorPolicy, VmKey
from tests.fakes.qemu_fleet import QemuFleet
from tests.fakes.qemu_machine import MIB, FakeMachine
from tests.fleet_process import until

KEY = VmKey("local/a")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[QemuFleet]:
    with QemuFleet(tmp_path, "a") as started:
        yield started


@pytest.fixture
def machine(fleet: QemuFleet) -> FakeMachine:
    return fleet.qemus["a"].machine


def told(fleet: QemuFleet, text: str) -> InventoryChange:
    """The whole fleet once something that can't be read is told with that text."""
    found: list[InventoryChange] = []

    def is_told() -> bool:
        found.append(fleet.platform.changes(None, wait_s=0))
        return any(text in problem for _, problem in found[-1].unreadable)

    until(is_told, f"it is told: {text}")
    return found[-1]


def size(fleet: QemuFleet) -> Resources:
    return fleet.platform.read_size(fleet.vm(), timeout_s=30)


def test_a_vm_has_what_its_entry_says(fleet: QemuFleet) -> None:
    scaling = {"loadAverageFractionTarget": 0.5, "memoryUsageFractionTarget": 0.6}
    fleet.entries["a"] |= {"billingId": "ep-1", "scaling": scaling, "monitor": "127.0.0.1:9", "uid": "u1"}
    fleet.write()
    vm = fleet.vm()
    assert (vm.key, vm.uid, vm.node, vm.endpoint_id) == (KEY, "u1", "n", "ep-1")
    assert (vm.min, vm.max, vm.slot_bytes) == (resources(250, 1), resources(4000, 8), 1024 * MIB)
    assert vm.scaling_config == ScalingConfig(0.5, 0.6)
    assert vm.metrics == Address("127.0.0.1", fleet.qemus["a"].guest_port)
    assert (vm.monitor, vm.monitor_address) == (MonitorPolicy.REQUIRED, Address("127.0.0.1", 9))
    assert vm.informant == Address("127.0.0.1", fleet.qemus["a"].guest_port)


def test_a_vm_without_a_monitor_or_that_is_observed_is_told_so(fleet: QemuFleet) -> None:
    fleet.entries["a"] |= {"monitor": "none", "informant": "none", "mode": "observe"}
    fleet.write()
    vm = fleet.vm()
    assert (vm.monitor, vm.monitor_address, vm.mode) == (MonitorPolicy.NONE, None, Mode.OBSERVE)
    assert vm.informant is None


def test_a_dead_qemu_is_told_and_neither_deleted_nor_resized(fleet: QemuFleet) -> None:
    before = fleet.vm()
    cursor = fleet.platform.changes(None, wait_s=0).cursor
    fleet.qemus["a"].kill()
    change = told(fleet, "not running")
    assert [name for name, _ in change.unreadable] == [KEY]
    assert fleet.platform.changes(cursor, wait_s=0).removed == ()
    with pytest.raises(PeerUnreachable):
        fleet.platform.read_size(before, timeout_s=5)
    with pytest.raises(PeerUnreachable):
        fleet.apply(before, 2000, 2)


def test_a_qemu_that_was_started_anew_has_nobody_s_wish(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 3000, 4, token=9)
    fleet.qemus["a"].kill()
    told(fleet, "not running")
    machine.size = machine.requested = 0
    machine.online = 1
    fleet.qemus["a"].start()
    until(lambda: fleet.platform.changes(None, wait_s=0).updated != (), "it is seen again")
    assert (fleet.vm().use, fleet.vm().observed) == (resources(1000, 1), resources(1000, 1))


@pytest.mark.parametrize("status", ["paused", "guest-panicked", "io-error", "shutdown"])
def test_a_vm_that_does_not_run_is_told_and_refuses_sizes(
    fleet: QemuFleet, machine: FakeMachine, status: str
) -> None:
    vm = fleet.vm()
    machine.status = status
    assert told(fleet, status).updated == ()
    with pytest.raises(PeerRefused, match=status):
        fleet.apply(vm, 2000, 2)
    assert "qom-set" not in machine.commands
    machine.status = "running"
    until(lambda: fleet.platform.changes(None, wait_s=0).updated == (vm,), "it is as it was")
    assert fleet.platform.changes(None, wait_s=0).unreadable == ()


def test_a_vm_on_its_way_to_another_host_is_told_as_migrating_and_left_alone(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    vm = fleet.vm()
    machine.migration = "active"
    until(lambda: fleet.vm().migrating, "it is migrating")
    with pytest.raises(PeerRefused) as caught:
        fleet.apply(vm, 2000, 2)
    assert caught.value.code == 423
    machine.status, machine.is_silent = "finish-migrate", True
    still = fleet.vm()
    assert (still.migrating, still.observed) == (True, vm.observed)
    machine.status, machine.migration, machine.is_silent = "running", "completed", False
    until(lambda: fleet.vm() == vm, "it runs")


def test_a_silent_guest_is_told_and_its_size_is_unknown(fleet: QemuFleet, machine: FakeMachine) -> None:
    vm = fleet.vm()
    machine.is_silent = True
    told(fleet, "no answer in time")
    with pytest.raises(PeerTimedOut):
        fleet.platform.read_size(vm, timeout_s=1)


def test_a_silent_guest_can_be_given_memory_but_loses_none(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 1000, 4)
    vm = fleet.vm()
    machine.is_silent = True
    with pytest.raises(PeerUnreachable, match="silent"):
        fleet.apply(vm, 1000, 2, timeout_s=4)
    assert machine.requested == 3072 * MIB
    fleet.apply(vm, 1000, 6, timeout_s=4)
    assert machine.requested == 5120 * MIB


def test_a_guest_that_rebooted_is_brought_back_by_the_same_size(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 3000, 4)
    machine.reboot()
    vm = fleet.vm()
    assert (vm.use, vm.observed) == (resources(3000, 4), resources(1000, 4))
    fleet.apply(vm, 3000, 4)
    assert size(fleet) == resources(3000, 4)


def test_memory_that_the_guest_has_not_set_online_is_not_observed(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 6)
    machine.kernel += 5120 * MIB
    observed = fleet.platform.read_size(fleet.vm(), timeout_s=30)
    assert observed.mem < 6


def test_a_shrink_that_has_not_ended_counts_what_is_still_there(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 6)
    machine.requested, machine.size = 0, 100 * MIB
    assert size(fleet) == resources(1000, 2)
    machine.requested, machine.size = 5120 * MIB, 100 * MIB
    assert size(fleet) == resources(1000, 1)


def test_cpu_and_memory_fail_each_for_itself(
    fleet: QemuFleet, machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    vm = fleet.vm()
    machine.threads = 2
    with caplog.at_level(logging.WARNING):
        fleet.apply(vm, 4000, 4)
    assert (fleet.vm().use, fleet.vm().observed) == (resources(4000, 4), resources(1000, 4))
    assert "resize accepted in part" in caplog.messages


def test_a_shrink_never_goes_below_what_the_guest_needs(fleet: QemuFleet, machine: FakeMachine) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    machine.used = 4600 * MIB
    fleet.apply(fleet.vm(), 1000, 2)
    assert 4600 * MIB + 48 * MIB <= machine.total < 6000 * MIB
    assert machine.requested == machine.size
    machine.used = machine.total - 100 * MIB
    with pytest.raises(PeerRefused, match="needs the memory"):
        fleet.apply(fleet.vm(), 1000, 1)


def test_a_shrink_that_stalls_leaves_nothing_asked_for_below_what_is(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    machine.resists_below = 5 * 1024 * MIB
    fleet.apply(fleet.vm(), 1000, 2, timeout_s=2)
    assert machine.requested == machine.size == 4096 * MIB
    vm = fleet.vm()
    assert (vm.use, vm.observed) == (resources(1000, 2), resources(1000, 5))


def test_a_guest_that_runs_short_gets_back_what_the_shrink_took(
    fleet: QemuFleet, machine: FakeMachine
) -> None:
    fleet.apply(fleet.vm(), 1000, 8)
    vm = fleet.vm()
    machine.resists_below = 5 * 1024 * MIB

    def grow(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            machine.used = machine.total - machine.kernel - 10 * MIB

    machine.watchers.append(grow)
    fleet.apply(vm, 1000, 2, timeout_s=30)
    assert machine.requested == machine.size == 7168 * MIB
    assert fleet.vm().observed == resources(1000, 8)


def test_fractions_without_a_quota_are_rounded_up_and_said_so(
    fleet: QemuFleet, machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        fleet.apply(fleet.vm(), 1500, 1)
    assert machine.online == 2
    assert size(fleet) == resources(1500, 1)
    assert "CPU rounded up to whole ones, there is no quota" in caplog.messages
    machine.online = 3
    assert size(fleet) == resources(3000, 1)


def test_an_older_owner_is_refused_even_by_another_worker(
    fleet: QemuFleet, machine: FakeMachine, tmp_path: Path
) -> None:
    """The token is kept in the VM's own QEMU, not in the process that saw it."""
    vm = fleet.vm()
    fleet.apply(vm, 2000, 2, token=5)
    with QemuFleet.sharing(fleet) as other:
        theirs = other.vm()
        with pytest.raises(PeerRefused) as caught:
            other.apply(theirs, 3000, 3, token=4)
        assert caught.value.code == 409
        other.apply(theirs, 3000, 3, token=6)
    with pytest.raises(PeerRefused) as caught:
        fleet.apply(replace(vm, use=resources(3000, 3)), 1000, 1, token=5)
    assert caught.value.code == 409


def test_what_another_worker_asked_for_meanwhile_is_no_basis(fleet: QemuFleet) -> None:
    vm = fleet.vm()
    with QemuFleet.sharing(fleet) as other:
        other.apply(other.vm(), 3000, 3)
    with pytest.raises(PeerRefused) as caught:
        fleet.apply(vm, 2000, 2)
    assert caught.value.code == 412
    until(lambda: fleet.vm().use == resources(3000, 3), "it is told")


def test_a_cpu_change_that_hangs_may_have_taken_effect(fleet: QemuFleet, machine: FakeMachine) -> None:
    vm = fleet.vm()
    machine.put_delay.clear()
    with pytest.raises(PeerTimedOut):
        fleet.apply(vm, 3000, 1, timeout_s=2)
    assert fleet.vm().use == vm.use


def test_a_qemu_that_dies_in_the_middle_may_have_resized(fleet: QemuFleet, machine: FakeMachine) -> None:
    vm = fleet.vm()

    def die(name: str, given: dict[str, object]) -> None:
        if name == "qom-set" and given.get("property") == "requested-size":
            fleet.qemus["a"].kill()

    machine.watchers.append(die)
    with pytest.raises(PeerTimedOut):
        fleet.apply(vm, 3000, 4)
    assert VmKey("local/a") in {VmKey(name) for name, _ in told(fleet, "not running").unreadable}


def test_a_qemu_that_hangs_is_given_up_in_time(fleet: QemuFleet) -> None:
    vm = fleet.vm()
    fleet.qemus["a"].behaviour = "silent"
    with pytest.raises(PeerError):
        fleet.apply(vm, 2000, 2, timeout_s=1)


def test_one_hung_vm_holds_up_no_other(tmp_path: Path) -> None:
    with QemuFleet(tmp_path, "a", "b") as fleet:
        fleet.vm("a")
        fleet.qemus["a"].behaviour = "silent"
        cursor = fleet.platform.changes(None, wait_s=0).cursor
        fleet.apply(fleet.vm("b"), 2000, 2)
        until(lambda: fleet.vm("b").observed == resources(2000, 2), "b is told")
        change = fleet.platform.changes(cursor, wait_s=0)
        assert "b" in {vm.name for vm in change.updated}
        assert change.removed == ()
