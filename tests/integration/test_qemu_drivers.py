"""The ways to change CPUs and memory of a VM, each against the fake of what it drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.adapters.qemu_quota import CpuQuota
from app.core.resources import MilliCpu, resources
from app.errors import PeerRefused
from tests.fakes.qemu_fleet import QemuFleet
from tests.fakes.qemu_machine import MIB, FakeMachine


@pytest.fixture
def with_entry(tmp_path: Path) -> Iterator[Callable[..., tuple[QemuFleet, FakeMachine]]]:
    """A fleet of one VM whose entry has these fields."""
    fleets: list[QemuFleet] = []

    def make(**fields: object) -> tuple[QemuFleet, FakeMachine]:
        fleet = QemuFleet(tmp_path, "a")
        fleets.append(fleet)
        fleet.entries["a"] = {
            name: value for name, value in {**fleet.entries["a"], **fields}.items() if value is not None
        }
        fleet.write()
        return fleet, fleet.qemus["a"].machine

    yield make
    for fleet in fleets:
        fleet.__exit__()


Make = Callable[..., tuple[QemuFleet, FakeMachine]]


def test_dimms_are_plugged_and_unplugged_one_slot_each(with_entry: Make) -> None:
    fleet, machine = with_entry(memoryDriver="dimm")
    fleet.apply(fleet.vm(), 1000, 4)
    assert machine.dimms == {f"vmscaler-dimm{n}": 1024 * MIB for n in range(3)}
    fleet.apply(fleet.vm(), 1000, 2)
    assert list(machine.dimms) == ["vmscaler-dimm0"]
    # What backed the slots that are gone is used again.
    fleet.apply(fleet.vm(), 1000, 3)
    assert fleet.vm().observed == resources(1000, 3)


def test_a_dimm_that_the_guest_keeps_stays_and_is_observed(with_entry: Make) -> None:
    fleet, machine = with_entry(memoryDriver="dimm")
    fleet.apply(fleet.vm(), 1000, 4)
    machine.is_applying = False
    fleet.apply(fleet.vm(), 1000, 2, timeout_s=2)
    assert fleet.vm().observed == resources(1000, 4)


def test_a_balloon_takes_memory_up_and_gives_it_back(with_entry: Make) -> None:
    fleet, machine = with_entry(memoryDriver="balloon")
    machine.base, machine.balloon = 8192 * MIB, 8192 * MIB
    assert fleet.vm().observed == resources(1000, 8)
    fleet.apply(fleet.vm(), 1000, 3)
    assert machine.balloon == 3072 * MIB
    fleet.apply(fleet.vm(), 1000, 5)
    assert fleet.vm().observed == resources(1000, 5)


def test_a_vm_that_was_not_started_for_its_driver_is_told_so(with_entry: Make) -> None:
    fleet, _ = with_entry(memoryDevice="other")
    change = fleet.platform.changes(None, wait_s=0)
    assert ("local/a", "no virtio-mem device called other") in {
        (name, text.rpartition("the VM has ")[2]) for name, text in change.unreadable
    }


def test_more_memory_than_it_was_started_with_room_for_is_refused(with_entry: Make) -> None:
    fleet, machine = with_entry()
    machine.most = 4096 * MIB
    with pytest.raises(PeerRefused, match="room for 4096 MiB only"):
        fleet.apply(fleet.vm(), 1000, 8)


def test_cpus_are_plugged_by_qmp_and_set_online_by_the_guest(with_entry: Make) -> None:
    fleet, machine = with_entry(cpuDriver="qmp")
    machine.threads = 1
    fleet.apply(fleet.vm(), 3000, 1)
    assert (machine.threads, machine.online) == (3, 3)
    assert fleet.vm().observed == resources(3000, 1)


def test_no_cpu_is_ever_unplugged_under_tcg(with_entry: Make) -> None:
    """The fake raises on a `device_del` of a CPU there, as QEMU crashes."""
    fleet, machine = with_entry(cpuDriver="qmp")
    machine.online = 4
    fleet.apply(fleet.vm(), 1000, 1)
    assert (machine.threads, machine.online) == (4, 1)
    assert fleet.vm().observed == resources(1000, 1)
    assert "device_del" not in machine.commands


def test_under_kvm_a_plugged_cpu_is_unplugged_once_it_is_offline(with_entry: Make) -> None:
    fleet, machine = with_entry(cpuDriver="qmp")
    machine.is_kvm, machine.online = True, 4
    fleet.apply(fleet.vm(), 2000, 1)
    assert (machine.threads, machine.online) == (2, 2)


def test_without_a_guest_daemon_cpus_are_only_added(with_entry: Make) -> None:
    fleet, machine = with_entry(cpuDriver="qmp", guest=None, tokenFile=None, monitor="none")
    machine.threads = 1
    fleet.apply(fleet.vm(), 3000, 1)
    assert (machine.threads, fleet.vm().observed) == (3, resources(3000, 1))
    with pytest.raises(PeerRefused, match="no CPU can be taken away"):
        fleet.apply(fleet.vm(), 1000, 1)
    assert fleet.vm().use == resources(3000, 1)


def test_a_guest_that_asks_for_another_token_is_told(with_entry: Make, tmp_path: Path) -> None:
    fleet, _ = with_entry()
    fleet.qemus["a"].token_file.write_text("another\n")
    change = fleet.platform.changes(None, wait_s=0)
    assert "HTTP status 401" in dict(change.unreadable)["local/a"]
    fleet.qemus["a"].token_file.write_text("two\nlines\n")
    assert "no token in" in dict(fleet.platform.changes(None, wait_s=0).unreadable)["local/a"]
    fleet.qemus["a"].token_file.unlink()
    assert "can't be read" in dict(fleet.platform.changes(None, wait_s=0).unreadable)["local/a"]


def group(directory: Path, processes: str = "42\n") -> Path:
    """A cgroup v2 directory."""
    directory.mkdir()
    (directory / "cgroup.procs").write_text(processes)
    (directory / "cpu.max").write_text("max 100000\n")
    return directory


def test_a_quota_gives_parts_of_a_cpu(with_entry: Make, tmp_path: Path) -> None:
    place = group(tmp_path / "vm.scope")
    fleet, machine = with_entry(cgroup=str(place))
    fleet.apply(fleet.vm(), 1500, 1)
    assert ((place / "cpu.max").read_text(), machine.online) == ("150000 100000\n", 2)
    assert fleet.vm().observed == resources(1500, 1)
    fleet.apply(fleet.vm(), 2000, 1)
    assert (place / "cpu.max").read_text() == "max 100000\n"
    # Somebody else's quota is seen.
    (place / "cpu.max").write_text("50000 100000\n")
    assert fleet.vm().observed == resources(500, 1)


def test_a_group_that_holds_others_too_is_not_taken(tmp_path: Path) -> None:
    assert not CpuQuota(group(tmp_path / "shared", "42\n43\n")).is_usable()
    assert not CpuQuota(tmp_path / "none").is_usable()
    assert not CpuQuota(None).is_usable()
    assert CpuQuota(group(tmp_path / "own")).is_usable()


def test_a_quota_that_does_not_come_out_even_is_not_understated(tmp_path: Path) -> None:
    place = group(tmp_path / "own")
    (place / "cpu.max").write_text("33333 100000\n")
    assert CpuQuota(place).read() == MilliCpu(334)
    (place / "cpu.max").write_text("0 0\n")
    with pytest.raises(ValueError, match="not what the kernel writes"):
        CpuQuota(place).read()
