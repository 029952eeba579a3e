"""The neonvm platform against the API server double, over real connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.adapters.neonvm_fleet import KnownFleet
from app.adapters.platform_neonvm import NeonvmPlatform
from app.core.model import Mode
from app.core.resources import resources
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.platform import InventoryChange
from app.ports.store import FencingToken
from app.ports.vm import VirtualMachine, VmKey
from app.protocols.virtual_machine import Selection
from app.services.inventory import Inventory
from tests.fakes.clock import FakeClock
from tests.fakes.neonvm_cluster import ENABLED, SELECTION, VMS, NeonvmCluster, vm_object
from tests.fleet_process import until

_LIMIT_S = 30.0
TOKEN = FencingToken(1)


@pytest.fixture
def cluster() -> Iterator[NeonvmCluster]:
    found = NeonvmCluster("a", "b", "c")
    yield found
    found.close()


@pytest.fixture
def platform(cluster: NeonvmCluster, tmp_path: Path) -> Iterator[NeonvmPlatform]:
    found = cluster.platform(str(tmp_path / "kubeconfig"))
    yield found
    found.close()


class Followed:
    """A platform followed as the inventory does."""

    def __init__(self, platform: NeonvmPlatform) -> None:
        self.platform = platform
        self.lists = 0
        self.removed: list[VmKey] = []
        self.inventory = Inventory(platform, lambda vm: None, self.removed.append, lambda: None, 0.5)
        self.take(platform.changes(None, wait_s=0))

    def take(self, change: InventoryChange) -> None:
        self.lists += change.is_full
        self.cursor = change.cursor
        self.inventory.take(change)

    @property
    def vms(self) -> dict[VmKey, VirtualMachine]:
        return self.inventory.vms

    def step(self, wait_s: float = 0.2) -> bool:
        """One question; always true, for use in conditions."""
        self.take(self.platform.changes(self.cursor, wait_s=wait_s))
        return True


def key(name: str) -> VmKey:
    return VmKey(f"sim/{name}")


def test_the_list_comes_in_pages_and_is_whole(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    for index in range(20):
        cluster.store.put(VMS, vm_object(f"more-{index:02}"))
    cluster.server.faults.page_limit = 7
    change = platform.changes(None, wait_s=0)
    assert len(change.updated) == 23
    assert cluster.server.seen["list", VMS] == 4


def test_objects_that_are_too_large_for_one_page_come_in_smaller_ones(
    cluster: NeonvmCluster, platform: NeonvmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in range(20):
        item = vm_object(f"large-{turn:02}")
        item["metadata"]["annotations"] = {"more": "x" * 50_000}
        cluster.store.put(VMS, item)
    monkeypatch.setattr("app.adapters.kubernetes_api.MAX_ANSWER_BYTES", 400_000)
    assert len(platform.changes(None, wait_s=0).updated) == 23
    monkeypatch.setattr("app.adapters.kubernetes_api.MAX_ANSWER_BYTES", 40_000)
    with pytest.raises(PeerRefused, match="answer over 40000 bytes"):
        platform.changes(None, wait_s=0)


def test_a_list_whose_pages_expire_is_begun_again(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    cluster.server.faults.page_limit = 1
    cluster.server.faults.expire_pages = 2
    assert len(platform.changes(None, wait_s=0).updated) == 3


def test_a_vm_is_not_taken_for_gone_while_the_list_is_read_again(
    cluster: NeonvmCluster, platform: NeonvmPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    vm = Followed(platform).vms[key("c")]
    fold, turns = KnownFleet.fold, [0]

    def resize_after_the_first(fleet: KnownFleet, *args: Any) -> InventoryChange:
        turns[0] += 1
        if turns[0] == 2:
            platform.apply_size(vm, resources(2000, 2), token=TOKEN, timeout_s=_LIMIT_S)
        return fold(fleet, *args)

    monkeypatch.setattr("app.adapters.platform_neonvm.READ_AT_ONCE", 1)
    monkeypatch.setattr(KnownFleet, "fold", resize_after_the_first)
    assert len(platform.changes(None, wait_s=0).updated) == 3
    assert cluster.store.get(VMS, "sim", "c")["spec"]["guest"]["memorySlots"]["use"] == 2


def test_a_vm_that_cannot_be_read_is_named_and_the_others_go_on(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    cluster.change("b", "spec.guest.memorySlots.max", "many")
    change = platform.changes(None, wait_s=0)
    assert {vm.name for vm in change.updated} == {"a", "c"}
    assert change.unreadable == (("sim/b", ".spec.guest.memorySlots.max: must be a whole number of slots"),)


def test_a_use_outside_of_its_bounds_is_warned_of_once_and_the_vm_is_taken(
    cluster: NeonvmCluster, platform: NeonvmPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.change("a", "spec.guest.cpus.use", 7)
    followed = Followed(platform)
    assert followed.vms[key("a")].use.cpu == 7000
    cluster.change("a", "metadata.labels.more", "x")
    cluster.change("b", "status.podIP", "127.0.0.9")
    until(lambda: followed.step() and "127.0.0.9" in str(followed.vms[key("b")].metrics), "both are seen")
    followed.take(platform.changes(None, wait_s=0))
    told = [vars(record) for record in caplog.records if record.message == "VM is odd"]
    assert [each["vm"] for each in told] == ["sim/a"]
    assert ".spec.guest: use (cpu 7" in told[0]["reason"]


def test_a_vm_that_cannot_be_read_any_more_stays_as_it_was_and_nothing_is_asked_for_it(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    cluster.change("b", "spec.guest.cpus.max", "lots")
    until(lambda: followed.step() and "sim/b" in followed.inventory.unreadable, "it is seen")
    vm = followed.vms[key("b")]
    with pytest.raises(PeerRefused, match=r"\.spec\.guest\.cpus\.max") as caught:
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 422
    cluster.change("b", "spec.guest.cpus.max", 3)
    until(lambda: followed.step() and followed.inventory.unreadable == {}, "it can be read again")
    assert followed.vms[key("b")].max == resources(3000, 8)
    assert (followed.removed, cluster.server.patches) == ([], [])


@pytest.mark.parametrize("is_listed_anew", [False, True])
def test_a_vm_that_is_deleted_while_it_cannot_be_read_is_forgotten(
    cluster: NeonvmCluster, platform: NeonvmPlatform, is_listed_anew: bool
) -> None:
    followed = Followed(platform)
    cluster.change("b", "spec.guest.cpus.max", "lots")
    until(lambda: followed.step() and "sim/b" in followed.inventory.unreadable, "it is seen")
    if is_listed_anew:
        followed.take(platform.changes(None, wait_s=0))
        assert key("b") in followed.vms
    cluster.store.delete(VMS, "sim", "b")
    until(lambda: followed.step() and key("b") not in followed.vms, "it is gone")
    assert followed.inventory.unreadable == {}
    assert followed.removed == [key("b")]


@pytest.mark.parametrize("is_listed_anew", [False, True])
def test_a_vm_made_anew_that_cannot_be_read_is_not_taken_for_the_earlier_one(
    cluster: NeonvmCluster, platform: NeonvmPlatform, is_listed_anew: bool
) -> None:
    followed = Followed(platform)
    cluster.store.delete(VMS, "sim", "b")
    broken = vm_object("b")
    del broken["spec"]["guest"]["memorySlotSize"]
    cluster.store.put(VMS, broken)
    if is_listed_anew:
        followed.take(platform.changes(None, wait_s=0))
    until(lambda: followed.step() and "sim/b" in followed.inventory.unreadable, "it is seen")
    assert followed.removed == [key("b")]
    assert key("b") not in followed.vms


def test_a_vm_that_could_never_be_read_is_forgotten_with_its_object(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    cluster.change("b", "spec.guest.cpus.max", "lots")
    followed = Followed(platform)
    assert "sim/b" in followed.inventory.unreadable
    cluster.store.delete(VMS, "sim", "b")
    until(lambda: followed.step() and followed.inventory.unreadable == {}, "it is forgotten")


def test_who_else_changes_the_size_is_named(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    followed = Followed(platform)
    vm = followed.vms[key("a")]
    cluster.store.set_manager(VMS, "sim", "a", "autoscaler-agent")
    cluster.change("a", "spec.guest.cpus.use", 3)
    with pytest.raises(PeerRefused, match=r"another writer \(autoscaler-agent\) has changed its use"):
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    until(lambda: followed.step() and followed.vms[key("a")].use == resources(3000, 4), "it is read again")
    assert followed.vms[key("a")].use_writer == "autoscaler-agent"
    platform.apply_size(followed.vms[key("a")], resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    until(lambda: followed.step() and followed.vms[key("a")].use_writer == "vmscaler", "now it is us")


def test_a_label_that_is_flipped_adds_and_removes_the_vm(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    cluster.change("a", "metadata.labels", {ENABLED: "false"})
    until(lambda: followed.step() and key("a") not in followed.vms, "the VM is gone")
    cluster.change("a", "metadata.labels", {ENABLED: "true"})
    until(lambda: followed.step() and key("a") in followed.vms, "the VM is back")
    assert followed.lists == 1


def test_a_vm_made_anew_under_its_name_is_another_one(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    old = followed.vms[key("a")]
    cluster.store.delete(VMS, "sim", "a")
    cluster.store.put(VMS, vm_object("a"))
    until(lambda: followed.step() and followed.vms.get(key("a"), old).uid != old.uid, "the new one is seen")
    assert followed.removed == [key("a")]
    with pytest.raises(PeerRefused) as caught:
        platform.apply_size(old, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 404
    assert cluster.server.patches == []


def test_while_it_migrates_a_vm_stays_and_goes_on_with_its_new_address(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    cluster.change("a", "status.phase", "Migrating")
    cluster.change("a", "status.podIP", ...)
    until(lambda: followed.step() and followed.vms[key("a")].metrics is None, "the pod is gone")
    assert followed.vms[key("a")].migrating
    cluster.change("a", "status.node", "node-b")
    cluster.change("a", "status.podIP", "127.0.0.9")
    cluster.change("a", "status.phase", "Running")
    until(lambda: followed.step() and not followed.vms[key("a")].migrating, "it runs again")
    vm = followed.vms[key("a")]
    assert (vm.node, vm.metrics, vm.monitor_address) == ("node-b", ("127.0.0.9", 9100), ("127.0.0.9", 10301))
    assert vm.informant == ("127.0.0.9", 10302)
    assert followed.removed == []


def test_versions_that_were_forgotten_lead_to_a_new_list(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    until(lambda: cluster.server.open_watches == 1, "the watch is open")
    cluster.server.faults.is_deaf = True
    cluster.store.delete(VMS, "sim", "b")
    cluster.store.compact()
    cluster.server.cut_watches()
    until(lambda: followed.step() and key("b") not in followed.vms, "the list is read again")
    assert followed.lists == 2


def test_lists_that_expire_at_once_are_read_at_growing_distances(
    cluster: NeonvmCluster, tmp_path: Path
) -> None:
    clock = FakeClock()
    platform = cluster.platform(str(tmp_path / "k"), monotonic=clock.monotonic)
    followed = Followed(platform)
    cluster.store.compacted = 10**9
    cluster.server.cut_watches()
    distances: list[int] = []
    for _ in range(12):
        started, lists = clock.monotonic(), followed.lists
        while followed.lists == lists:
            with suppress(PeerTimedOut):
                followed.step(0.05)
            clock.advance(0.25)
        distances.append(round(clock.monotonic() - started))
    assert min(distances[-3:]) >= 20
    platform.close()


def test_a_watch_cut_a_hundred_times_loses_nothing_and_lists_never_again(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    cuts = 0
    for turn in range(400):
        name = f"new-{turn:03}"
        cluster.store.put(VMS, vm_object(name))
        if turn % 3 == 0:
            cluster.store.delete(VMS, "sim", name)
        cuts += cluster.server.cut_watches()
        until(lambda: cluster.server.open_watches > 0, "the watch is begun again")
        if cuts >= 100:
            break
    assert cuts >= 100
    expected = {key[2] for key in cluster.store.objects}
    until(lambda: followed.step() and {vm.name for vm in followed.vms.values()} == expected, "all is seen")
    assert followed.lists == 1


def test_credentials_that_change_are_loaded_again(
    cluster: NeonvmCluster, platform: NeonvmPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.kubernetes_api.RELOAD_PAUSE_S", 0.0)
    cluster.server.faults.token = "t"
    vm = Followed(platform).vms[key("a")]
    cluster.server.faults.token = "t2"
    with pytest.raises(PeerRefused) as caught:
        platform.read_size(vm, timeout_s=_LIMIT_S)
    assert caught.value.code == 401
    cluster.server.kubeconfig(str(tmp_path / "kubeconfig"), token="t2")
    assert platform.read_size(vm, timeout_s=_LIMIT_S) == vm.observed


def test_a_server_that_asks_to_wait_is_left_alone(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    cluster.server.faults.answers = [(429, 30)]
    with pytest.raises(PeerRefused):
        platform.changes(None, wait_s=0)
    before = sum(cluster.server.seen.values())
    with pytest.raises(PeerRefused, match="asked us to wait"):
        platform.changes(None, wait_s=0)
    assert sum(cluster.server.seen.values()) == before


def test_an_error_of_the_server_may_have_taken_effect(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    vm = Followed(platform).vms[key("a")]
    until(lambda: cluster.server.open_watches == 1, "the watch is open")
    cluster.server.faults.answers = [(500, None)]
    with pytest.raises(PeerTimedOut):
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)


def test_a_right_that_is_missing_is_named(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    vm = Followed(platform).vms[key("a")]
    cluster.server.faults.denied = {("patch", VMS)}
    with pytest.raises(
        PeerRefused, match=r"get and patch on virtualmachines\.vm\.neon\.tech in namespace sim"
    ):
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)


def test_a_right_to_list_that_is_missing_is_named(cluster: NeonvmCluster, tmp_path: Path) -> None:
    cluster.server.faults.denied = {("list", VMS)}
    for namespaces, place in (((), "in all namespaces"), (("sim",), "in namespace sim")):
        platform = cluster.platform(str(tmp_path / "k"), namespaces=namespaces)
        with pytest.raises(PeerRefused, match=rf"list and watch on virtualmachines\.vm\.neon\.tech {place}"):
            platform.changes(None, wait_s=0)
        platform.close()


@pytest.mark.parametrize("code", [None, 403, 404, 409, 422])
def test_what_a_webhook_says_is_shown_whatever_its_code(
    cluster: NeonvmCluster, platform: NeonvmPlatform, code: int | None
) -> None:
    cluster.refusal_code = code
    vm = Followed(platform).vms[key("a")]
    cluster.refusals.add("a")
    with pytest.raises(PeerRefused, match="denied the request: not now") as caught:
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 422


def test_a_use_that_another_writer_changed_is_read_again_not_overwritten(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    vm = followed.vms[key("a")]
    cluster.change("a", "spec.guest.cpus.use", "3")
    with pytest.raises(PeerRefused, match="another writer") as caught:
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 412
    until(lambda: followed.step() and followed.vms[key("a")].use == resources(3000, 4), "it is read again")
    platform.apply_size(followed.vms[key("a")], resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert cluster.store.get(VMS, "sim", "a")["spec"]["guest"]["cpus"]["use"] == 2


def test_one_that_sets_our_size_back_before_we_have_looked_is_counted_and_named(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    vm = followed.vms[key("a")]
    cluster.held.add("a")
    platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    back = {"op": "replace", "path": "/spec/guest/cpus/use", "value": 1}
    cluster.store.patch(VMS, "sim", "a", [back], manager="autoscaler-agent")
    until(lambda: followed.step() and followed.vms[key("a")].overwrites == 1, "it is counted")
    found = followed.vms[key("a")]
    assert (found.use, found.use_writer) == (resources(1000, 4), "autoscaler-agent")


@pytest.mark.parametrize("spelling", ["1", "1000m", 1.0])
def test_a_use_spelt_otherwise_is_patched_all_the_same(
    cluster: NeonvmCluster, platform: NeonvmPlatform, spelling: object
) -> None:
    cluster.change("a", "spec.guest.cpus.use", spelling)
    vm = Followed(platform).vms[key("a")]
    platform.apply_size(vm, resources(2250, 5), token=TOKEN, timeout_s=_LIMIT_S)
    assert cluster.store.get(VMS, "sim", "a")["spec"]["guest"]["cpus"]["use"] == "2250m"


def test_a_vm_deleted_meanwhile_ends_as_gone(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    followed = Followed(platform)
    vm = followed.vms[key("a")]
    cluster.server.faults.is_deaf = True
    cluster.store.delete(VMS, "sim", "a")
    with pytest.raises(PeerRefused) as caught:
        platform.apply_size(vm, resources(2000, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 404
    until(lambda: followed.step() and key("a") not in followed.vms, "the inventory is told")


def test_a_worker_that_is_bound_to_a_node_sees_the_vms_of_that_node(
    cluster: NeonvmCluster, tmp_path: Path
) -> None:
    cluster.change("b", "status.node", "node-b")
    here, there = (
        Followed(cluster.platform(str(tmp_path / node), selection=replace(SELECTION, node=node)))
        for node in ("node-a", "node-b")
    )
    assert (set(here.vms), set(there.vms)) == ({"sim/a", "sim/c"}, {"sim/b"})
    cluster.change("b", "status.phase", "Migrating")
    cluster.change("b", "status.podIP", ...)
    until(lambda: there.step() and there.vms[key("b")].migrating, "it stays with the node that it leaves")
    cluster.change("b", "status.node", "node-a")
    cluster.change("b", "status.podIP", "127.0.0.9")
    cluster.change("b", "status.phase", "Running")
    until(lambda: there.step() and not there.vms, "it has left")
    until(lambda: here.step() and key("b") in here.vms, "it has arrived")
    here.platform.close()
    there.platform.close()


def test_only_the_namespaces_that_are_asked_for_are_watched(cluster: NeonvmCluster, tmp_path: Path) -> None:
    for namespace in ("one", "two", "three"):
        cluster.store.put(VMS, vm_object("a", namespace))
    platform = cluster.platform(str(tmp_path / "k"), namespaces=("one", "two"))
    followed = Followed(platform)
    assert set(followed.vms) == {"one/a", "two/a"}
    cluster.store.put(VMS, vm_object("b", "two"))
    until(lambda: followed.step() and VmKey("two/b") in followed.vms, "both are watched")
    platform.close()


def test_an_observed_label_makes_the_mode(cluster: NeonvmCluster, tmp_path: Path) -> None:
    selection = Selection("autoscale-scheduler", "vmscaler/enabled", observe_label=ENABLED)
    platform = cluster.platform(str(tmp_path / "k"), selection=selection)
    followed = Followed(platform)
    assert followed.vms[key("a")].mode is Mode.OBSERVE
    cluster.change("a", "metadata.labels", {ENABLED: "false", "vmscaler/enabled": "true"})
    until(lambda: followed.step() and followed.vms[key("a")].mode is Mode.SCALE, "the VM changes sides")
    platform.close()


def test_a_watch_that_cannot_be_had_is_told_and_what_is_known_stays(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    followed = Followed(platform)
    cluster.server.faults.denied = {("watch", VMS)}
    cluster.server.cut_watches()

    def fails() -> bool:
        try:
            followed.step()
        except PeerTimedOut as err:
            return "status 403" in err.problem
        return False

    until(fails, "the watch's failure is told")
    cluster.server.faults.denied = set()
    cluster.store.delete(VMS, "sim", "a")
    until(lambda: not fails() and key("a") not in followed.vms, "it goes on from where it was")
    assert followed.lists == 1


def test_a_server_that_is_gone_is_unreachable(cluster: NeonvmCluster, tmp_path: Path) -> None:
    platform = cluster.platform(str(tmp_path / "k"))
    vm = Followed(platform).vms[key("a")]
    cluster.close()
    with pytest.raises(PeerUnreachable):
        platform.changes(None, wait_s=0)
    with pytest.raises((PeerUnreachable, PeerTimedOut)):
        platform.read_size(vm, timeout_s=_LIMIT_S)
    platform.close()


def test_a_size_out_of_bounds_is_not_sent(cluster: NeonvmCluster, platform: NeonvmPlatform) -> None:
    vm = Followed(platform).vms[key("a")]
    with pytest.raises(PeerRefused) as caught:
        platform.apply_size(vm, resources(4250, 4), token=TOKEN, timeout_s=_LIMIT_S)
    assert caught.value.code == 422
    assert cluster.server.patches == []


def test_bounds_that_exclude_the_use_are_taken_as_they_are(
    cluster: NeonvmCluster, platform: NeonvmPlatform
) -> None:
    bounds = {"min": {"cpu": 2, "mem": "5Gi"}, "max": {"cpu": 3, "mem": "6Gi"}}
    cluster.annotate("a", **{"autoscaling.neon.tech/bounds": json.dumps(bounds)})
    vm = Followed(platform).vms[key("a")]
    assert (vm.min, vm.use, vm.max) == (resources(2000, 5), resources(1000, 4), resources(3000, 6))
    stale = replace(vm, use=resources(333, 3))
    with pytest.raises(PeerRefused, match="another writer"):
        platform.apply_size(stale, resources(2000, 5), token=TOKEN, timeout_s=_LIMIT_S)
