"""What a whole worker makes of each thing that can happen to a VirtualMachine, on the API server double."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.core.resources import resources
from tests.fakes.kube_store import Json
from tests.fakes.neonvm_cluster import ENABLED, VMS, vm_object
from tests.fleet_process import until
from tests.neonvm_world import NeonvmWorld, Pages, polls


@pytest.fixture(scope="module")
def world(module_redis: EmbeddedRedis) -> Iterator[NeonvmWorld]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("K8S_POD_IP", "127.0.0.1")
        found = NeonvmWorld(module_redis, directory)
        try:
            yield found
        finally:
            found.close()
            shutil.rmtree(directory)


def test_a_vm_that_appears_is_scaled_up_by_one_patch_and_down_again(world: NeonvmWorld) -> None:
    servers = world.add("grows", load=2.7)
    until(lambda: world.use("grows").cpu == 3000, "it has grown")
    polls(servers)
    assert len(world.patches("grows")) == 1
    servers.pages.load = 0.45
    until(lambda: world.use("grows") == resources(500, 4), "it has shrunk, by the monitor's leave")
    until(lambda: "downscale" in world.kinds("grows"), "and it is told")


def test_bounds_that_exclude_the_size_in_use_are_obeyed(world: NeonvmWorld) -> None:
    world.add("lowered", load=1.8)
    world.add("raised", load=0.2)
    until(lambda: world.use("lowered").cpu == 2000, "it has grown")
    until(lambda: world.use("raised").cpu == 250, "it has shrunk")
    world.cluster.change("lowered", "spec.guest.cpus.max", 1)
    world.cluster.change("raised", "spec.guest.cpus.min", "1500m")
    until(lambda: world.use("lowered").cpu == 1000, "the new maximum holds")
    until(lambda: world.use("raised").cpu == 1500, "the new minimum holds")


def test_a_deleted_vm_leaves_no_record_and_is_asked_for_nothing(world: NeonvmWorld) -> None:
    servers = world.add("deleted")
    other = world.add("beside-it")
    until(lambda: world.record("deleted") is not None, "it is known")
    polls(servers)
    world.cluster.store.delete(VMS, "sim", "deleted")
    until(lambda: world.record("deleted") is None, "it is forgotten")
    polls(other, 1)
    before = servers.pages.gets
    polls(other)
    assert servers.pages.gets == before


def test_a_vm_made_anew_under_its_name_begins_from_the_beginning(world: NeonvmWorld) -> None:
    world.add("again", load=2.7)
    until(lambda: world.use("again").cpu == 3000, "it has grown")
    old = world.item("again")["metadata"]["uid"]
    world.cluster.store.delete(VMS, "sim", "again")
    servers = world.add("again", load=0.9)
    polls(servers)
    until(lambda: (world.record("again") or {}).get("uid") not in (None, old), "the new one has a record")
    assert world.use("again") == resources(1000, 4)
    assert world.patches("again") == []


def test_while_it_migrates_nobody_is_asked_anything_and_then_it_goes_on_elsewhere(
    world: NeonvmWorld,
) -> None:
    servers = world.add("moves", load=0.9)
    other = world.add("stays")
    until(lambda: "sim/moves" in world.worker.log() or world.record("moves") is not None, "it is known")
    polls(servers)
    world.cluster.change("moves", "status.phase", "Migrating")
    until(lambda: "migrating" in world.kinds("moves"), "it is seen")
    servers.pages.load = 3.6
    before = servers.pages.gets, world.scheduler.asked["moves-abc"]
    polls(other, 6)
    assert (servers.pages.gets, world.scheduler.asked["moves-abc"]) == before
    assert world.patches("moves") == []
    target = world.open_pod()
    target.pages.load = 2.7
    world.cluster.change("moves", "status.podIP", target.host)
    world.cluster.change("moves", "status.node", "node-b")
    world.cluster.change("moves", "status.phase", "Running")
    until(lambda: world.use("moves").cpu == 3000, "it is scaled by what its new pod says")
    assert "migrated" in world.kinds("moves")


def test_a_pod_with_another_address_is_followed(world: NeonvmWorld) -> None:
    world.add("readdressed")
    until(lambda: world.record("readdressed") is not None, "it is known")
    target = world.open_pod()
    target.pages.load = 0.45
    world.cluster.change("readdressed", "status.podIP", target.host)
    until(lambda: world.use("readdressed").cpu == 500, "its new monitor has given leave")


def test_a_label_taken_away_during_a_resize_ends_it_and_the_vm_is_taken_up_as_it_is(
    world: NeonvmWorld,
) -> None:
    world.cluster.held.add("flipped")
    servers = world.add("flipped", load=2.7)
    until(lambda: world.use("flipped").cpu == 3000, "it is asked for")
    world.cluster.change("flipped", "metadata.labels", {ENABLED: "false"})
    until(lambda: world.record("flipped") is None, "its runner has ended")
    world.cluster.held.discard("flipped")
    servers.pages.load = 0.45
    until(lambda: world.item("flipped")["status"]["cpus"] in (3, "3"), "the platform has done it")
    assert len(world.patches("flipped")) == 1
    world.cluster.change("flipped", "metadata.labels", {ENABLED: "true"})
    until(lambda: world.use("flipped").cpu == 500, "it goes on from the size that it has")


def test_a_vm_of_a_fixed_size_off_the_units_grid_is_left_as_it_is(world: NeonvmWorld) -> None:
    servers = world.add(
        "fixed",
        load=9.0,
        cpus={"min": "1100m", "max": "1100m", "use": "1100m"},
        memorySlots={"min": 5, "max": 5, "use": 5},
    )
    world.cluster.change("fixed", "status.cpus", "1100m")
    world.cluster.change("fixed", "status.memorySize", "5Gi")
    polls(servers, 5)
    servers.pages.load = 0.0
    polls(servers, 5)
    assert world.patches("fixed") == []
    assert world.use("fixed") == resources(1100, 5)


def test_another_writer_is_named_and_its_size_is_taken_as_the_one_in_use(world: NeonvmWorld) -> None:
    servers = world.add("shared")
    until(lambda: world.record("shared") is not None, "it is known")
    polls(servers)
    world.cluster.store.set_manager(VMS, "sim", "shared", "autoscaler-agent")
    world.cluster.change("shared", "spec.guest.cpus.use", 2)
    until(lambda: "other_writer" in world.kinds("shared"), "it is noticed")
    told = next(entry for entry in world.trail("shared") if entry["kind"] == "other_writer")
    assert "autoscaler-agent" in told["why"]
    until(lambda: world.use("shared").cpu == 1000, "what the load asks for is asked for on the new basis")
    assert world.patches("shared")[-1][1]["value"] == 2


def test_what_the_webhook_says_is_shown_and_the_patch_tried_again(world: NeonvmWorld) -> None:
    world.cluster.refusals.add("refused")
    world.add("refused", load=2.7)
    until(lambda: "failed" in world.kinds("refused"), "it is refused")
    told = next(entry for entry in world.trail("refused") if entry["kind"] == "failed")
    assert "denied the request: not now" in told["why"]
    world.cluster.refusals.discard("refused")
    until(lambda: world.use("refused").cpu == 3000, "it is accepted in the end")


def test_a_size_that_is_not_applied_is_noticed_and_asked_for_again(world: NeonvmWorld) -> None:
    world.cluster.held.add("stubborn")
    world.add("stubborn", load=2.7)
    until(lambda: "not_applied" in world.kinds("stubborn"), "it is noticed")
    world.cluster.held.discard("stubborn")
    until(lambda: world.item("stubborn")["status"]["cpus"] in (3, "3"), "it is applied in the end")
    until(lambda: (world.record("stubborn") or {}).get("operation") is None, "and the worker knows it")


def test_cpus_that_were_given_without_the_memory_are_counted_and_the_rest_is_asked_for_again(
    world: NeonvmWorld,
) -> None:
    world.cluster.without_memory.add("half")
    world.add("half", load=2.7, memorySlots={"min": 1, "max": 12, "use": 4})
    until(lambda: "not_applied" in world.kinds("half"), "the memory does not come")
    told = next(entry for entry in world.trail("half") if entry["kind"] == "not_applied")
    assert told["to"] == {"cpu_m": 3000, "mem": 12}
    assert "but 3 CPU, 4 GiB observed" in told["why"]
    world.cluster.without_memory.discard("half")
    until(lambda: world.item("half")["status"]["memorySize"] == str(12 << 30), "the memory comes")


def test_an_object_that_cannot_be_read_is_told_of_by_an_event_and_the_others_go_on(
    world: NeonvmWorld,
) -> None:
    world.add("broken", memorySlotSize="1 slot")
    servers = world.add("whole", load=1.8)

    def told() -> list[str]:
        found = [item for key, item in world.cluster.store.objects.items() if key[0] == "events"]
        return [str(item["message"]) for item in found if item["involvedObject"]["name"] == "broken"]

    until(lambda: told() != [], "an event is on the object")
    until(lambda: world.use("whole").cpu == 2000, "another VM is scaled")
    polls(servers)
    assert len(told()) == 1
    assert ".spec.guest.memorySlotSize" in told()[0]


def test_a_scheduler_that_answers_one_vm_nothing_keeps_no_other_back(world: NeonvmWorld) -> None:
    world.scheduler.mute.add("unheard-abc")
    world.add("unheard", load=2.7)
    until(lambda: world.scheduler.asked["unheard-abc"] > 0, "it asks")
    for index in range(3):
        world.add(f"heard-{index}", load=2.7)
    until(lambda: all(world.use(f"heard-{index}").cpu == 3000 for index in range(3)), "the others are served")
    assert world.use("unheard").cpu == 1000
    world.scheduler.mute.discard("unheard-abc")
    until(lambda: world.use("unheard").cpu == 3000, "it is served as well")


def test_without_a_scheduler_nothing_grows_and_a_new_one_is_asked_after_the_pause(world: NeonvmWorld) -> None:
    servers = world.add("waits")
    until(lambda: world.scheduler.asked["waits-abc"] > 0, "it is known")
    second = Pages("127.0.2.2", world.scheduler.port)
    try:
        world.cluster.store.delete("pods", "kube-system", "s1")
        until(lambda: "scheduler changed scheduler=None" in world.worker.log(), "there is none")
        servers.pages.load = 2.7
        polls(servers, 5)
        assert world.use("waits").cpu == 1000
        world.put_scheduler("s2", "127.0.2.2")
        until(lambda: world.use("waits").cpu == 3000, "the new one is asked")
        assert second.asked["waits-abc"] > 0
        world.cluster.store.delete("pods", "kube-system", "s2")
        world.put_scheduler("s3", "127.0.2.1")
        servers.pages.load = 3.6
        until(lambda: world.use("waits").cpu == 4000, "so is the one after it")
    finally:
        second.close()


def test_a_watch_cut_a_hundred_times_loses_no_vm_and_scales_none_twice_or_on_a_stale_object(
    world: NeonvmWorld,
) -> None:
    dice = random.Random(8)
    pod = world.open_pod()
    pod.pages.load = 2.7
    until(lambda: world.cluster.server.open_watches > 0, "the worker watches")
    lists, cuts, names, kept = world.cluster.server.seen["list", VMS], 0, list[str](), set[str]()
    while cuts < 100:
        name = f"cut-{len(names):03}"
        world.cluster.store.put(VMS, small_vm(name, pod.host))
        names.append(name)
        kept.add(name)
        if dice.random() < 0.4:
            gone = dice.choice(sorted(kept))
            kept.discard(gone)
            world.cluster.store.delete(VMS, "sim", gone)
        time.sleep(dice.uniform(0.0, 0.2))
        # The scheduler's watch is cut as well.
        cuts += world.cluster.server.cut_watches()
    until(lambda: all(world.use(name).cpu == 3000 for name in kept), "every VM that is left is scaled")
    polls(pod)
    assert world.cluster.server.seen["list", VMS] == lists
    assert {name: len(world.patches(name)) for name in kept} == dict.fromkeys(kept, 1)
    until(lambda: not any(world.record(name) for name in set(names) - kept), "the others are forgotten")
    for name in kept:
        world.cluster.store.delete(VMS, "sim", name)


def small_vm(name: str, host: str) -> Json:
    """One that grows in CPUs alone."""
    item = vm_object(name, pod_ip=host)
    item["spec"]["guest"]["memorySlots"] = {"min": 4, "max": 4, "use": 4}
    return item
