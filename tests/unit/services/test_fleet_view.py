from dataclasses import replace

from app.core.events import PluginGone
from app.core.model import Millis, Mode
from app.core.resources import resources
from app.ports.vm import VmKey
from app.services.fleet_view import FleetView
from tests.fakes.shown_fleet import BUCKETS, NOW, ShownFleet, bucket_of, inspection
from tests.fakes.shown_records import GIB, permit, runner, sample, show, virtual_machine


def live_fleet() -> ShownFleet:
    fleet = ShownFleet()
    fleet.hold("w1", "w2")
    for name in ("w1", "w2"):
        fleet.add_agent("worker", name, buckets=[BUCKETS[0]], vms=1)
    fleet.add_agent("beat", "beat-1")
    return fleet


def add_vm(fleet: ShownFleet, key: str, load1: float = 0.9, **changes: object) -> VmKey:
    vm = runner(fleet, key)
    sample(vm, load1, 1.0)
    return show(fleet, vm, **changes)


def codes(view: FleetView) -> list[str]:
    return [problem.code for problem in view.problems]


def test_a_live_fleet_without_trouble_is_healthy() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a")
    view = inspection(fleet).fleet_view()
    assert view.problems == ()
    assert view.is_healthy
    assert [worker.name for worker in view.workers] == ["w1", "w2"]


def test_a_row_shows_sizes_load_sample_age_and_why() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a", load1=2.1)
    fleet.now = Millis(NOW + 3_000)
    (row,) = inspection(fleet).fleet_view().vms
    assert (row.key, row.bucket, row.worker, row.node) == ("ns/a", bucket_of(VmKey("ns/a")), "w1", "node-1")
    assert row.use == row.observed == resources(1000, 4)
    assert row.desired == resources(2250, 9)
    assert row.metrics is not None
    assert row.metrics.load1 == 2.1
    assert row.sample_age_ms == 3_000
    assert row.why.startswith("load1 2.10 / 0.9 = 2.33 CPUs → 2.25 CPU; the permit is 1 CPU, 4 GiB")


def test_totals_and_counters_are_sums_over_all_vms() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a", load1=2.1)
    observed = runner(fleet, "ns/b", vm=replace(virtual_machine("ns/b"), mode=Mode.OBSERVE))
    sample(observed, 0.9, 1.0)
    show(fleet, observed)
    view = inspection(fleet).fleet_view()
    assert (view.totals.vms, view.totals.scaled, view.totals.observed) == (2, 1, 1)
    assert (view.totals.cpu_use_m, view.totals.cpu_desired_m) == (2000, 3250)
    assert (view.totals.mem_use_bytes, view.totals.mem_desired_bytes) == (8 * GIB, 13 * GIB)
    assert view.counters["upscales"] == 6
    assert view.counters["polls"] == 2


def test_rows_are_sorted_and_read_by_bucket() -> None:
    fleet = live_fleet()
    for i in range(30):
        add_vm(fleet, f"ns/vm-{i:02}")
    fleet.loads = 0
    view = inspection(fleet).fleet_view()
    assert [row.key for row in view.vms] == [f"ns/vm-{i:02}" for i in range(30)]
    assert fleet.loads == len(BUCKETS)


def test_a_redis_that_takes_no_writes_is_told_before_what_follows_from_it() -> None:
    fleet = ShownFleet(is_read_only=True)
    view = inspection(fleet).fleet_view()
    assert codes(view)[:2] == ["redis-read-only", "no-workers"]
    assert "name the master" in view.problems[0].text


def test_without_a_worker_nothing_else_about_buckets_is_told() -> None:
    view = inspection(ShownFleet()).fleet_view()
    assert codes(view) == ["no-workers", "no-beat"]
    assert view.vms == ()


def test_buckets_without_holder_are_named() -> None:
    fleet = live_fleet()
    del fleet.rows[BUCKETS[1]]
    (problem,) = inspection(fleet).fleet_view().problems
    assert problem.code == "free-buckets"
    assert problem.text == "1 of 4 buckets have no holder: autoscaler-bucket-01-of-04"


def test_another_number_of_buckets_is_told_first() -> None:
    fleet = live_fleet()
    fleet.total = 16
    (problem,) = inspection(fleet).fleet_view().problems
    assert problem.code == "bucket-total"
    assert "4 buckets, the fleet has 16" in problem.text


def test_ticks_that_stopped_are_told_once_not_for_every_vm() -> None:
    fleet = live_fleet()
    for i in range(5):
        add_vm(fleet, f"ns/vm-{i}")
    fleet.now = Millis(NOW + 20_000)
    assert codes(inspection(fleet).fleet_view()) == []
    fleet.now = Millis(NOW + 20_001)
    assert codes(inspection(fleet).fleet_view()) == ["ticks-stopped"]


def test_a_vm_whose_polls_fail_is_told_with_the_reason_once_its_sample_is_old() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a")
    silent = runner(fleet, "ns/b")
    sample(silent, 0.9, 1.0)
    fleet.now = Millis(NOW + 60_000)
    silent.reject_sample("ns/b: no answer within 2 s")
    show(fleet, silent)
    add_vm(fleet, "ns/a")
    (problem,) = inspection(fleet).fleet_view().problems
    assert (problem.code, problem.subject) == ("old-sample", "ns/b")
    assert problem.text == "ns/b gives no sample (the last one is 60 s old): ns/b: no answer within 2 s"


def test_vms_in_trouble_are_told_with_their_reason() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a", status="stuck", status_reason="monitor silent for 25 s")
    size = {"cpu_m": 1000, "mem": 4}
    operation = {
        "kind": "upscale",
        "from": size,
        "to": size,
        "since_ms": NOW - 42_000,
        "state": "not applied",
    }
    add_vm(fleet, "ns/b", operation=operation)
    texts = [problem.text for problem in inspection(fleet).fleet_view().problems]
    assert texts == [
        "ns/a is stuck: monitor silent for 25 s",
        "ns/b: 1 CPU, 4 GiB was accepted 42 s ago and is not applied",
    ]


def test_many_vms_in_trouble_are_counted_after_the_first_ten() -> None:
    fleet = live_fleet()
    for i in range(14):
        add_vm(fleet, f"ns/vm-{i:02}", status="panicked")
    problems = inspection(fleet).fleet_view().problems
    assert len(problems) == 11
    assert problems[-1].text == "… and 4 VMs more: vm-panicked"


def test_scaled_vms_without_scheduler_are_told_observed_ones_are_not() -> None:
    fleet = live_fleet()
    observed = runner(fleet, "ns/b", vm=replace(virtual_machine("ns/b"), mode=Mode.OBSERVE))
    observed.apply(PluginGone())
    sample(observed, 0.9, 1.0)
    show(fleet, observed)
    assert codes(inspection(fleet).fleet_view()) == []
    scaled = runner(fleet, "ns/a")
    scaled.apply(PluginGone())
    show(fleet, scaled)
    assert "no-scheduler" in codes(inspection(fleet).fleet_view())


def test_a_record_that_cannot_be_read_is_a_problem_and_harms_no_other() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a")
    for key, raw in {
        "ns/junk": b"\xff\x00",
        "ns/future": b'{"v": 2}',
        "ns/list": b"[]",
        "ns/deep": b"[" * 100_000,
        "ns/\x1b[2J": b"{}",
    }.items():
        fleet.records.setdefault(bucket_of(VmKey(key)), {})[VmKey(key)] = raw
    view = inspection(fleet).fleet_view()
    assert [row.key for row in view.vms] == ["ns/a"]
    assert codes(view) == ["unreadable"] * 5
    assert all(problem.text.isprintable() for problem in view.problems)


def test_a_record_of_another_vm_under_this_name_is_not_believed() -> None:
    fleet = live_fleet()
    add_vm(fleet, "ns/a")
    raw = fleet.records[bucket_of(VmKey("ns/a"))].pop(VmKey("ns/a"))
    fleet.records.setdefault(BUCKETS[0], {})[VmKey("ns/b")] = raw
    assert codes(inspection(fleet).fleet_view()) == ["unreadable"]


def test_hostile_texts_reach_no_view_unescaped() -> None:
    hostile = "\x1b]0;title\x07\r\n\u202e" + "A" * 10_240
    fleet = live_fleet()
    vm = runner(fleet, "ns/a")
    sample(vm, 0.9, 1.0)
    vm.reject_sample(hostile)
    show(fleet, vm, status="errored", status_reason=hostile, worker=hostile, node=hostile)
    fleet.add_agent("worker", hostile, address=hostile, problems=[hostile])
    view = inspection(fleet).fleet_view()
    (row,) = view.vms
    shown = [row.status_reason, row.worker, row.node, row.sample.error or ""]
    shown += [text for agent in view.agents for text in (agent.name, agent.address or "", *agent.problems)]
    assert all(text.isprintable() and len(text) <= 200 for text in shown)
    assert all(problem.text.isprintable() for problem in view.problems)


def test_facts_of_a_process_that_cannot_be_read_are_shown_as_such() -> None:
    fleet = live_fleet()
    fleet.add_agent("worker", "w3", counters={"polls": "many"})
    view = inspection(fleet).fleet_view()
    assert "agent" in codes(view)
    assert [agent.name for agent in view.agents if agent.kind == "unreadable"] == ["id-w3"]


def test_a_pause_whose_time_is_over_is_not_shown() -> None:
    fleet = live_fleet()
    pause = {"until_ms": NOW + 1_000, "reason": "", "author": "ada@host", "since_ms": NOW}
    add_vm(fleet, "ns/a", pause=pause)
    assert inspection(fleet).fleet_view().totals.paused == 1
    fleet.now = Millis(NOW + 1_000)
    assert inspection(fleet).fleet_view().totals.paused == 0


def test_an_observed_size_that_differs_is_kept_apart_from_the_one_asked_for() -> None:
    fleet = live_fleet()
    vm = replace(virtual_machine("ns/a", resources(2000, 8)), observed=resources(1000, 4))
    resized = runner(fleet, "ns/a", vm=vm)
    permit(resized, resources(2000, 8), resources(2000, 8))
    show(fleet, resized)
    (row,) = inspection(fleet).fleet_view().vms
    assert (row.use, row.observed, row.real_size) == (vm.use, vm.observed, vm.observed)
