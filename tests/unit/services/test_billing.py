"""Billing of a bucket's VMs, turn by turn."""

from __future__ import annotations

import json

import pytest

from app.errors import PeerRefused, PeerTimedOut
from app.metering.meter import MeterId, Usage
from app.metering.stored import id_field
from app.ports.store import FencingToken
from app.services.billing import Billing
from app.services.bucket_meters import MAX_ENDED, BucketMeters, MeterRules, Moment, Seen
from app.services.usage_events import MetricNames, UsageEvents
from tests.billing_judge import billed, out_of_order
from tests.billing_world import ACTIVE, CPU, BillingWorld, NeverStopped
from tests.fakes.billing import MemoryBilling
from tests.fakes.clock import FakeClock
from tests.service_builders import BUCKET


def a_world(**options: int) -> BillingWorld:
    """One VM of 2 CPUs that was noted a moment ago, in an open window."""
    world = BillingWorld(**options)
    world.put_vm(cpu=2_000, endpoint="ep")
    world.collect()
    return world


def test_two_events_a_window_have_the_fields_that_sinks_expect() -> None:
    world = a_world()
    world.run(24)
    world.push()
    ((label, events),) = world.sinks[0].batches
    assert events == [
        {
            "idempotency_key": f"2023-11-14T22:13:44.000000Z-host-1-{number}/2",
            "metric": metric,
            "type": "incremental",
            "endpoint_id": "ep",
            "start_time": "2023-11-14T22:13:20.000000Z",
            "stop_time": "2023-11-14T22:13:44.000000Z",
            "value": value,
        }
        for number, metric, value in ((1, CPU, 48), (2, ACTIVE, 24))
    ]
    assert label == events[0]["idempotency_key"]


def test_nothing_is_billed_while_the_platform_tells_nothing() -> None:
    world = a_world()
    world.run(8)
    world.is_platform_away = True
    world.run(60)
    world.is_platform_away = False
    world.run(8)
    world.drain()
    # 8 s before; the first note after the gap begins anew, so 4 s and what `drain` adds.
    assert billed(world.sinks[0].events)["ep", ACTIVE] == 8 + 4 + 4 * 25


def test_a_short_silence_of_the_platform_is_billed_with_the_smaller_size() -> None:
    world = a_world()
    world.is_platform_away = True
    world.run(20)
    world.is_platform_away = False
    world.put_vm(cpu=500, endpoint="ep")
    world.run(24)
    world.push()
    assert billed(world.sinks[0].events) == {("ep", CPU): 12, ("ep", ACTIVE): 24}
    world.run(24)
    world.push()
    assert billed(world.sinks[0].events) == {("ep", CPU): 24, ("ep", ACTIVE): 48}


@pytest.mark.parametrize("silence", ["no endpoint", "no CPUs"])
def test_a_vm_without_endpoint_or_cpus_is_not_billed(silence: str) -> None:
    world = BillingWorld()
    if silence == "no CPUs":
        world.put_vm(cpu=None, endpoint="ep")
    world.run(60)
    world.drain()
    assert world.sinks[0].events == []
    assert world.store.meters.get(BUCKET, {}) == {}


def test_a_vm_that_cannot_be_read_is_neither_billed_nor_taken_for_gone() -> None:
    world = a_world()
    world.run(24)
    world.unreadable = (("default/db", "no such field"),)
    world.run(60)
    world.push()
    assert billed(world.sinks[0].events)["ep", ACTIVE] == 24
    assert list(world.store.meters[BUCKET]) == [id_field(MeterId("default/db", "uid-1", "ep"))]


def test_a_vm_that_is_gone_gets_its_last_window_and_its_meter_goes() -> None:
    world = a_world()
    world.run(8)
    world.vms.clear()
    world.run(24)
    world.push()
    assert billed(world.sinks[0].events) == {("ep", CPU): 16, ("ep", ACTIVE): 8}
    assert world.store.meters[BUCKET] == {}


def test_a_meter_of_a_vm_that_is_gone_goes_though_the_platform_is_silent_when_the_window_ends() -> None:
    world = a_world()
    world.run(8)
    world.vms.clear()
    world.run(4)
    world.is_platform_away = True
    world.run(24)
    assert world.store.meters[BUCKET] == {}


def test_a_vm_made_anew_is_another_one_and_its_pause_is_not_billed() -> None:
    world = a_world()
    world.run(8)
    world.put_vm(cpu=2_000, uid="uid-2", endpoint="ep")
    world.run(24)
    world.drain()
    events = world.sinks[0].events
    assert {event["start_time"] for event in events if event["metric"] == CPU} >= {
        "2023-11-14T22:13:20.000000Z",
        "2023-11-14T22:13:32.000000Z",
    }
    assert billed(events)["ep", ACTIVE] == 8 + 20 + 100


def test_a_sink_that_stores_and_answers_an_error_gets_the_same_keys_again() -> None:
    world = a_world()
    world.run(24)
    world.sinks[0].refuse_late = PeerTimedOut("sink", "500")
    world.push()
    world.push()
    world.sinks[0].refuse_late = None
    world.run(24)
    world.push()
    labels = [label for label, _ in world.sinks[0].batches]
    assert labels[0] == labels[1] == labels[2]
    assert billed(world.sinks[0].events) == {("ep", CPU): 96, ("ep", ACTIVE): 48}


def test_a_sink_that_is_down_for_an_hour_loses_nothing_and_its_outbox_stays_bounded() -> None:
    world = a_world(max_waiting=10, sinks=2)
    world.sinks[0].refuse = PeerRefused("sink", "no", code=503)
    for _ in range(150):
        world.run(24)
        world.push()
    assert len(world.store.outboxes[BUCKET, "http"]) <= 12
    assert any("full" in text for text in world.worker.billing.problems())
    assert any("503" in text or "no" in text for text in world.worker.billing.problems())
    assert billed(world.sinks[1].events)["ep", ACTIVE] == 3_600
    world.drain()
    for sink in world.sinks:
        assert billed(sink.events) == {("ep", CPU): 7_400, ("ep", ACTIVE): 3_700}
        assert out_of_order(sink.events) == []
    assert world.worker.billing.problems() == []


def test_a_full_outbox_of_vms_that_are_all_gone_is_emptied_in_the_end() -> None:
    world = a_world(max_waiting=2)
    world.sinks[0].refuse = PeerRefused("sink", "no")
    world.run(48)
    world.vms.clear()
    world.run(48)
    assert len(world.store.meters[BUCKET]) == 1
    world.drain()
    assert billed(world.sinks[0].events) == {("ep", CPU): 96, ("ep", ACTIVE): 48}
    assert world.store.meters[BUCKET] == {}


def test_meters_of_hundreds_of_vms_go_in_several_steps() -> None:
    world = BillingWorld(max_batch=500, max_waiting=5_000)
    for number in range(600):
        world.put_vm(f"vm-{number}", cpu=1_000, endpoint=f"ep-{number}")
    world.collect()
    assert world.last_steps() == {BUCKET: 6}
    world.run(24)
    world.push()
    assert billed(world.sinks[0].events) == {
        (f"ep-{number}", metric): 24 for number in range(600) for metric in (CPU, ACTIVE)
    }
    assert [len(events) for _, events in world.sinks[0].batches] == [500, 500, 200]


def test_of_vms_that_are_gone_and_find_no_room_a_bounded_number_is_kept_and_the_rest_counted() -> None:
    rules = MeterRules(("http",), max_gap_ms=45_000, max_waiting=0)
    meters = BucketMeters(BUCKET, FencingToken(1), store := MemoryBilling(), rules)
    events = UsageEvents(FakeClock(), "host", MetricNames(CPU, ACTIVE))
    vms = [MeterId(f"ns/{number}", "uid", "ep") for number in range(MAX_ENDED + 3)]
    meters.settle()
    meters.advance(Moment(1_000, 1_000), Seen(dict.fromkeys(vms, 1_000)), None)
    meters.advance(Moment(2_000, 2_000), Seen(dict.fromkeys(vms, 1_000)), None)
    meters.advance(Moment(3_000, 3_000), Seen(dict.fromkeys(vms[3:], 1_000)), None)
    meters.advance(Moment(5_000, 5_000), Seen({}), events)
    assert (meters.dropped, len(store.meters[BUCKET])) == (3, MAX_ENDED)
    assert id_field(vms[2]) not in store.meters[BUCKET]


def test_a_redis_that_lost_the_last_step_is_read_again_and_the_step_is_counted_again() -> None:
    world = a_world()
    world.run(20)
    steps, meters = dict(world.store.steps), {b: dict(m) for b, m in world.store.meters.items()}
    world.run(4)  # the window ends in this step
    world.store.steps, world.store.meters = steps, meters
    world.store.outboxes.clear()
    world.run(28)
    world.drain()
    assert billed(world.sinks[0].events)["ep", ACTIVE] == 24 + 28 + 100


def test_events_younger_than_the_look_are_not_sent_yet() -> None:
    world = a_world()
    world.run(24)
    (pushing,) = world.worker.pushing
    ripe = pushing.look()
    assert ripe == {BUCKET: 2}
    world.run(24)
    pushing.push(ripe, NeverStopped())
    assert sum(len(events) for _, events in world.sinks[0].batches) == 2
    assert len(world.store.outboxes[BUCKET, "http"]) == 2


def test_two_batches_of_one_millisecond_have_different_keys() -> None:
    events = UsageEvents(FakeClock(), "host", MetricNames(CPU, ACTIVE))
    pairs = [pair for _ in range(3) for pair in events.make([("ep", Usage(0, 1_000, 1, 1))])]
    keys = [json.loads(event)["idempotency_key"] for pair in pairs for event in pair]
    assert len(set(keys)) == 6


def test_a_meter_of_a_newer_version_is_left_alone_and_said() -> None:
    world = a_world()
    field = id_field(MeterId("default/db", "uid-1", "ep"))
    world.store.meters[BUCKET][field] = b'[2,"what is to come"]'
    world.take_over()
    world.run(48)
    assert world.store.meters[BUCKET][field] == b'[2,"what is to come"]'
    assert world.worker.billing.problems() == [
        "1 VMs are not billed: a newer version wrote their meters (default/db)"
    ]


def test_a_meter_that_is_none_is_begun_anew() -> None:
    world = a_world()
    field = id_field(MeterId("default/db", "uid-1", "ep"))
    world.store.meters[BUCKET] |= {field: b"garbage", "[nobody's": b"garbage"}
    world.take_over()
    world.run(28)
    world.push()
    assert billed(world.sinks[0].events)["ep", ACTIVE] == 24


def test_counters_tell_what_waits_what_was_sent_and_what_failed() -> None:
    world = a_world()
    world.run(24)
    world.sinks[0].refuse = PeerRefused("sink", "no")
    world.push()
    assert world.worker.billing.counters() == {
        "billing_dropped": 0,
        "billing_http_waiting": 2,
        "billing_http_sent": 0,
        "billing_http_failed": 1,
    }


def test_jobs_are_one_for_the_meters_and_one_for_each_sink() -> None:
    billing: Billing = BillingWorld(sinks=2).worker.billing
    assert list(billing.jobs()) == ["billing", "billing to http", "billing to s3"]
