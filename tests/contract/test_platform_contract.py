"""One suite for every platform: the fake, the simulated fleet, NeonVM and QEMU must behave alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.adapters.platform_sim import SimPlatform
from app.core.resources import resources
from app.errors import PeerRefused, PeerUnreachable
from app.ports.platform import Cursor, Platform
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey
from tests.fakes.neonvm_cluster import VMS, NeonvmCluster
from tests.fakes.platform import FakePlatform
from tests.fakes.qemu_fleet import QemuFleet
from tests.fakes.qemu_machine import FakeMachine
from tests.fleet_process import FleetProcess, until

_TIMEOUT_S = 30.0


@dataclass
class _Subject:
    """A platform and the means to act behind its back."""

    platform: Platform
    delete: Callable[[VmKey], None]
    refuse: Callable[[VmKey], None]
    hold_back: Callable[[VmKey], None]
    knows_tokens: bool = True

    def vms(self) -> dict[VmKey, VirtualMachine]:
        return {vm.key: vm for vm in self.platform.changes(None, wait_s=0).updated}

    def one(self) -> VirtualMachine:
        return next(iter(sorted(self.vms().items())))[1]

    def apply(self, vm: VirtualMachine, cpu: int, mem: int, token: int = 1) -> None:
        self.platform.apply_size(vm, resources(cpu, mem), token=FencingToken(token), timeout_s=_TIMEOUT_S)


def _machine(name: str) -> VirtualMachine:
    size = resources(1000, 4)
    return VirtualMachine(
        "sim", name, f"uid-{name}", "n", resources(250, 1), resources(4000, 8), size, size, 1 << 30
    )


def _fake() -> _Subject:
    platform = FakePlatform(*(_machine(name) for name in ("a", "b", "c")))

    def hold_back(key: VmKey) -> None:
        platform.is_applying = False

    return _Subject(platform, platform.delete, platform.refusals.add, hold_back)


def _neonvm(kubeconfig: str) -> Iterator[_Subject]:
    cluster = NeonvmCluster("a", "b", "c")
    platform = cluster.platform(kubeconfig)

    def delete(key: VmKey) -> None:
        cluster.store.delete(VMS, *key.split("/"))

    def hold_back(key: VmKey) -> None:
        cluster.is_applying = False

    try:
        yield _Subject(
            platform,
            delete,
            lambda key: cluster.refusals.add(key.split("/")[1]),
            hold_back,
            knows_tokens=False,
        )
    finally:
        platform.close()
        cluster.close()


def _qemu(directory: Path) -> Iterator[_Subject]:
    with QemuFleet(directory, "a", "b", "c") as fleet:

        def machine(key: VmKey) -> FakeMachine:
            return fleet.qemus[key.partition("/")[2]].machine

        yield _Subject(
            fleet.platform,
            fleet.delete,
            lambda key: setattr(machine(key), "is_refusing", True),
            lambda key: setattr(machine(key), "is_applying", False),
        )


@pytest.fixture(params=["fake", "sim", "neonvm", "qemu"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Subject]:
    if request.param == "fake":
        yield _fake()
        return
    if request.param == "neonvm":
        yield from _neonvm(str(tmp_path / "kubeconfig"))
        return
    if request.param == "qemu":
        yield from _qemu(tmp_path)
        return
    fleet = FleetProcess(vms=3)
    platform = SimPlatform(fleet.url)
    try:
        yield _Subject(
            platform,
            lambda key: fleet.api("DELETE", f"/v1/vms/{key}"),
            lambda key: fleet.fault("patch-refused", vms=[key]),
            lambda key: fleet.fault("patch-not-applied", vms=[key]),
        )
    finally:
        platform.close()
        fleet.stop()


def test_without_a_cursor_the_whole_fleet_comes(subject: _Subject) -> None:
    change = subject.platform.changes(None, wait_s=0)
    assert change.is_full
    assert len({vm.key for vm in change.updated}) == 3
    assert change.removed == ()
    assert all(vm.observed == vm.use for vm in change.updated)


def test_with_its_cursor_nothing_comes_while_nothing_changes(subject: _Subject) -> None:
    cursor = subject.platform.changes(None, wait_s=0).cursor
    again = subject.platform.changes(cursor, wait_s=0.1)
    assert (again.is_full, again.updated, again.removed) == (False, (), ())


def test_a_cursor_of_another_life_gets_the_whole_fleet(subject: _Subject) -> None:
    assert subject.platform.changes(Cursor("of another life"), wait_s=0).is_full


def test_an_accepted_size_is_seen_as_asked_for_and_then_as_observed(subject: _Subject) -> None:
    vm = subject.one()
    cursor = subject.platform.changes(None, wait_s=0).cursor
    subject.apply(vm, 2250, 7)
    change = subject.platform.changes(cursor, wait_s=30)
    assert [each.key for each in change.updated] == [vm.key]
    assert change.updated[0].use == resources(2250, 7)
    until(
        lambda: subject.platform.read_size(vm, timeout_s=_TIMEOUT_S) == resources(2250, 7),
        "the size asked for is the observed one",
    )
    assert subject.vms()[vm.key].observed == resources(2250, 7)


def test_a_size_that_is_held_back_is_not_the_observed_one(subject: _Subject) -> None:
    vm = subject.one()
    subject.hold_back(vm.key)
    subject.apply(vm, 2250, 7)
    assert subject.platform.read_size(vm, timeout_s=_TIMEOUT_S) == vm.observed
    assert subject.vms()[vm.key].use == resources(2250, 7)


def test_a_size_on_another_basis_is_refused(subject: _Subject) -> None:
    vm = subject.one()
    stale = replace(vm, use=resources(333, 3))
    with pytest.raises(PeerRefused) as caught:
        subject.apply(stale, 2250, 7)
    assert caught.value.code == 412
    assert subject.vms()[vm.key].use == vm.use


def test_an_older_token_is_refused_and_the_same_one_is_not(subject: _Subject) -> None:
    if not subject.knows_tokens:
        pytest.skip("its objects have no place for a token: the basis of a patch is its guard")
    vm = subject.one()
    subject.apply(vm, 2000, 5, token=7)
    later = subject.vms()[vm.key]
    with pytest.raises(PeerRefused) as caught:
        subject.apply(later, 1000, 4, token=6)
    assert caught.value.code == 409
    subject.apply(later, 2250, 5, token=7)
    assert subject.vms()[vm.key].use == resources(2250, 5)


@pytest.mark.parametrize(("cpu", "mem"), [(4250, 8), (4000, 9), (100, 1)])
def test_a_size_out_of_bounds_is_refused(subject: _Subject, cpu: int, mem: int) -> None:
    vm = subject.one()
    with pytest.raises(PeerRefused) as caught:
        subject.apply(vm, cpu, mem)
    assert caught.value.code == 422


def test_a_refused_size_changes_nothing(subject: _Subject) -> None:
    vm = subject.one()
    subject.refuse(vm.key)
    with pytest.raises(PeerRefused):
        subject.apply(vm, 2250, 7)
    assert subject.vms()[vm.key].use == vm.use


def test_a_deleted_vm_is_reported_once_and_then_unknown(subject: _Subject) -> None:
    vm = subject.one()
    cursor = subject.platform.changes(None, wait_s=0).cursor
    subject.delete(vm.key)
    change = subject.platform.changes(cursor, wait_s=30)
    assert (change.updated, change.removed) == ((), (vm.key,))
    assert subject.platform.changes(change.cursor, wait_s=0).removed == ()
    with pytest.raises(PeerRefused) as caught:
        subject.platform.read_size(vm, timeout_s=_TIMEOUT_S)
    assert caught.value.code == 404
    assert vm.key not in subject.vms()


def test_a_fleet_that_is_gone_is_unreachable() -> None:
    fleet = FleetProcess(vms=1)
    platform = SimPlatform(fleet.url)
    vm = platform.changes(None, wait_s=0).updated[0]
    fleet.stop()
    with pytest.raises(PeerUnreachable):
        platform.changes(None, wait_s=0)
    with pytest.raises(PeerUnreachable):
        platform.apply_size(vm, vm.use, token=FencingToken(1), timeout_s=_TIMEOUT_S)
    platform.close()


def test_a_fleet_with_a_token_refuses_who_has_none(tmp_path: object) -> None:
    secret = str(tmp_path) + "/token"
    with open(secret, "w", opener=_private) as file:
        file.write("s3cret\n")
    fleet = FleetProcess("--token-file", secret, vms=2)
    allowed, stranger = SimPlatform(fleet.url, token="s3cret"), SimPlatform(fleet.url, token="wrong")
    try:
        assert len(allowed.changes(None, wait_s=0).updated) == 2
        with pytest.raises(PeerRefused) as caught:
            stranger.changes(None, wait_s=0)
        assert caught.value.code == 401
    finally:
        allowed.close()
        stranger.close()
        fleet.stop()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
