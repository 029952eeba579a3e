"""A whole worker and beat on a real kube-apiserver, with the rights of the manifests (`make test-k8s`).

There is no NeonVM: a test says by the status subresource what a VM has become.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.embedded_redis import EmbeddedRedis
from app.core.resources import resources
from tests.fakes.neonvm_cluster import ENABLED
from tests.fleet_process import until
from tests.neonvm_world import polls
from tests.real_apiserver import ASSETS, RealApiServer
from tests.real_world import BUCKETS, POD_IP, RealWorld

pytestmark = pytest.mark.skipif(not ASSETS, reason="KUBEBUILDER_ASSETS is not set")

BOUNDS = "autoscaling.neon.tech/bounds"


@pytest.fixture(scope="module")
def server() -> Iterator[RealApiServer]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    found = RealApiServer(Path(ASSETS), directory)
    try:
        yield found
    finally:
        found.close()
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def world(server: RealApiServer, module_redis: EmbeddedRedis) -> Iterator[RealWorld]:
    directory = Path(tempfile.mkdtemp(prefix="vmscaler-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("K8S_POD_IP", POD_IP)
        found = RealWorld(server, module_redis, directory)
        try:
            yield found
        finally:
            found.close()
            shutil.rmtree(directory)


def test_a_vm_made_by_kubectl_is_resized_by_one_patch_and_its_status_tells_that_it_is_done(
    world: RealWorld,
) -> None:
    servers = world.add("grows", load=2.7)
    until(lambda: world.use("grows").cpu == 3000, "the patch has come")
    assert world.scheduler.asked["grows-abc"] > 0
    assert not world.is_settled("grows")
    world.apply("grows")
    until(lambda: world.is_settled("grows"), "it knows that it is done")
    polls(servers)
    assert world.item("grows")["metadata"]["generation"] == 2
    servers.pages.load = 0.45
    until(lambda: world.use("grows") == resources(500, 4), "it shrinks, by the monitor's leave")
    assert world.item("grows")["spec"]["guest"]["cpus"]["use"] == "500m"
    world.apply("grows")
    until(lambda: "downscale" in world.kinds("grows"), "and it is told")


def test_a_size_that_the_status_never_tells_is_asked_for_again(world: RealWorld) -> None:
    world.add("stubborn", load=2.7)
    until(lambda: "not_applied" in world.kinds("stubborn"), "it is noticed")
    world.apply("stubborn")
    until(lambda: world.is_settled("stubborn"), "it is applied in the end")


def test_kubectl_as_another_writer_is_named(world: RealWorld) -> None:
    servers = world.add("shared")
    until(lambda: world.record("shared") is not None, "it is known")
    polls(servers)
    world.set_use("shared", 2)
    world.apply("shared")
    until(lambda: "other_writer" in world.kinds("shared"), "it is noticed")
    told = next(entry for entry in world.trail("shared") if entry["kind"] == "other_writer")
    assert "kubectl-patch" in told["why"]
    until(lambda: world.use("shared").cpu == 1000, "what the load asks for is asked for on the new basis")
    world.apply("shared")


def test_an_object_that_cannot_be_read_has_an_event_that_kubectl_shows(world: RealWorld) -> None:
    world.add("broken", annotations={BOUNDS: "{"})
    until(
        lambda: BOUNDS in world.kubectl("describe", "virtualmachines/broken").partition("Events:")[2],
        "it is told",
    )
    text = world.kubectl("get", "events", "--field-selector=involvedObject.name=broken", "--no-headers")
    assert len(text.splitlines()) == 1
    assert "Unreadable" in text


def test_a_label_taken_away_ends_it_and_a_deleted_vm_is_forgotten(world: RealWorld) -> None:
    world.add("flipped")
    world.add("deleted")
    until(lambda: all(world.record(name) for name in ("flipped", "deleted")), "they are known")
    world.kubectl("label", "virtualmachines/flipped", "--overwrite", f"{ENABLED}=false")
    world.kubectl("delete", "virtualmachines/deleted")
    until(lambda: not any(world.record(name) for name in ("flipped", "deleted")), "they are forgotten")
    world.kubectl("label", "virtualmachines/flipped", "--overwrite", f"{ENABLED}=true")
    until(lambda: world.record("flipped") is not None, "it is taken up again")


def test_a_token_that_was_renewed_is_taken(world: RealWorld) -> None:
    world.renew_token()
    world.add("renewed", load=1.8)
    until(lambda: world.use("renewed").cpu == 2000, "it goes on")
    world.apply("renewed")


def test_the_worker_has_asked_for_what_its_role_gives_and_nothing_was_refused(world: RealWorld) -> None:
    asked = Counter(
        (each["verb"], each["objectRef"]["resource"], each["responseStatus"]["code"])
        for each in world.requests()
    )
    used = {(verb, resource) for verb, resource, _ in asked}
    vms = {(verb, "virtualmachines") for verb in ("get", "list", "watch", "patch")}
    pods = {("list", "pods"), ("watch", "pods")}
    leases = {(verb, "leases") for verb in ("get", "list", "watch", "create", "update")}
    kinds = ("services", "endpointslices")
    kept = {(verb, kind) for verb in ("list", "create", "update") for kind in kinds}
    assert used <= vms | pods | leases | kept | {("create", "events")}
    least = {("list", "virtualmachines"), ("patch", "virtualmachines"), ("create", "events"), *pods}
    assert used >= least | {("create", "leases"), ("update", "leases")}
    assert not [each for each in asked if each[2] in (401, 403)]


def test_the_buckets_leases_are_the_workers(world: RealWorld) -> None:
    holders = world.lease_holders()
    assert len(holders) == BUCKETS
    assert set(holders) == {f"{holders[0].partition('_')[0]}_{POD_IP}"}


def test_the_buckets_services_lead_to_the_worker(world: RealWorld) -> None:
    found = world.bucket_addresses()
    assert len(found) == BUCKETS
    assert all(addresses == [POD_IP] for addresses in found.values())


def test_an_api_server_that_is_killed_and_comes_back_loses_nothing_and_nothing_is_done_twice(
    world: RealWorld, server: RealApiServer
) -> None:
    servers = world.add("through")
    until(lambda: world.record("through") is not None, "it is known")
    server.restart(is_killed=True)
    world.add("after", load=1.8)
    until(lambda: world.use("after").cpu == 2000, "what came later is found")
    servers.pages.load = 2.7
    until(lambda: world.use("through").cpu == 3000, "what was there is scaled")
    for name in ("through", "after"):
        world.apply(name)
    until(lambda: all(world.is_settled(name) for name in ("through", "after")), "it is done")
    polls(servers)
    generations = [world.item(name)["metadata"]["generation"] for name in ("through", "after")]
    assert generations == [2, 2]


def test_a_worker_that_ends_gives_its_leases_back(world: RealWorld) -> None:
    world.worker.stop()
    assert world.lease_holders() == [""] * BUCKETS
