"""Guests in trouble on a real VM: opt-in by VMSCALER_TEST_VM=1, as `make test-vm` does.

tests/integration/test_qemu_safety.py has the same against a fake QMP server.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest

from app.core.resources import Resources, resources
from app.errors import PeerError, PeerRefused
from tests.vm.rig import LEAST, MIB, MOST, OOM_HOLD_S, SLOT, TOKEN, Rig, rig

OPT_IN = "VMSCALER_TEST_VM"

pytestmark = [
    pytest.mark.skipif(not os.environ.get(OPT_IN), reason=f"real VMs, with {OPT_IN}=1"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Rig]:
    with rig("a") as started:
        yield started


@pytest.fixture
def vm(running: Rig) -> Rig:
    """The VM at rest and at its least, whatever the test before has done to it."""
    running.guest("a").end_load(timeout_s=30)
    running.until(lambda: running.vm("a").min == LEAST, "the floor is down")
    running.reach("a", LEAST)
    return running


def kills(vm: Rig) -> int:
    count = vm.memory("a").oom_kills
    assert count is not None
    return count


def test_a_hog_that_grows_at_the_maximum_is_killed_and_the_floor_stays_up_for_a_while(vm: Rig) -> None:
    """Growing hog at the maximum, and an OOM in the guest, which is what it ends in."""
    vm.reach("a", MOST)
    before = kills(vm)
    vm.load("a", mib=4000, rate_mib=150, seconds=180)
    vm.until(lambda: vm.load_end("a") is not None, "the load has ended")
    assert vm.load_end("a") == "ended by signal 9"
    assert kills(vm) > before
    assert vm.directory("a").is_running()
    assert vm.observed("a") == MOST
    vm.until(lambda: vm.vm("a").min == Resources(LEAST.cpu, MOST.mem), "the floor is up")
    with pytest.raises(PeerRefused) as caught:
        vm.apply("a", LEAST)
    assert caught.value.code == 422
    vm.until(lambda: vm.vm("a").min == LEAST, "the floor is down again", limit_s=OOM_HOLD_S + 60)
    assert vm.reach("a", LEAST) == LEAST


def test_an_oom_below_the_maximum_raises_the_floor_and_the_vm_gets_its_maximum(vm: Rig) -> None:
    vm.load("a", mib=1500, rate_mib=200, seconds=60)
    vm.until(lambda: vm.load_end("a") == "ended by signal 9", "the hog was killed")
    vm.until(lambda: vm.vm("a").min.mem == MOST.mem, "the floor is up")
    vm.reach("a", Resources(LEAST.cpu, MOST.mem))
    vm.load("a", mib=1500, rate_mib=200, seconds=20)
    vm.until(lambda: vm.load_end("a") is not None, "the second has ended")
    assert vm.load_end("a") == "over"


def test_a_shrink_under_load_takes_nothing_that_is_in_use(vm: Rig) -> None:
    vm.reach("a", MOST)
    before = kills(vm)
    vm.load("a", cpu=4, mib=300, rate_mib=100, seconds=240)
    vm.until(lambda: vm.memory("a").total - vm.memory("a").available > 300 * MIB, "the hog is there")
    for _ in range(3):
        with contextlib.suppress(PeerError):
            vm.apply("a", LEAST)
    assert vm.load_end("a") is None
    assert kills(vm) == before
    assert vm.guest("a").cpus(timeout_s=30).online == 1
    vm.guest("a").end_load(timeout_s=30)
    assert vm.reach("a", LEAST) == LEAST


def test_a_shrink_while_a_hog_grows_is_stopped_before_the_guest_is_without(vm: Rig) -> None:
    vm.reach("a", MOST)
    before = kills(vm)
    vm.load("a", mib=1300, rate_mib=100, seconds=60)
    deadline = time.monotonic() + 25
    while time.monotonic() < deadline:
        with contextlib.suppress(PeerError):
            vm.apply("a", LEAST)
        # What the core does when the monitor asks, and what a shrink that was stopped is followed by.
        vm.reach("a", MOST)
    vm.until(lambda: vm.load_end("a") is not None, "the load has ended")
    assert vm.load_end("a") == "over"
    assert kills(vm) == before


def test_a_daemon_that_hangs_loses_no_memory_and_comes_back(vm: Rig) -> None:
    vm.reach("a", resources(2000, 8))
    seen = vm.vm("a")
    vm.in_guest("a", "kill -STOP $(busybox pidof python3)")
    vm.until(lambda: vm.problem("a") != "", "the platform says that it is silent")
    known = vm.platform.changes(None, wait_s=0)
    assert known.removed == ()
    with pytest.raises(PeerError):
        vm.platform.apply_size(seen, resources(2000, 4), token=TOKEN, timeout_s=15)
    with pytest.raises(PeerError):
        vm.platform.read_size(seen, timeout_s=5)
    vm.in_guest("a", "kill -CONT $(busybox pidof python3)")
    vm.until(lambda: vm.problem("a") == "", "it can be read again")
    assert vm.observed("a") == resources(2000, 8)
    assert vm.reach("a", resources(1000, 4)) == LEAST


def test_a_vm_that_reboots_in_the_middle_of_a_resize_is_brought_there(vm: Rig) -> None:
    target = resources(3000, 12)
    rebooting = threading.Thread(target=vm.in_guest, args=("a", "reboot -f"), name="reboot")
    rebooting.start()
    for _ in range(4):
        with contextlib.suppress(PeerError):
            vm.apply("a", target)
        time.sleep(0.3)
    rebooting.join()
    vm.until(lambda: vm.vms.is_up(vm.directory("a")), "the guest is up again")
    assert vm.directory("a").is_running()
    assert vm.reach("a", target) == target
    assert vm.memory("a").total > 10 * SLOT
