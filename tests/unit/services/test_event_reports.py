"""Scaling events: which ones are told, and how they are delivered."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from app.core.resources import resources
from app.errors import PeerError, PeerRefused, PeerUnreachable
from app.protocols.scaling_event import KINDS, NOTICES, TEMPLATE_NAMES
from app.protocols.webhook import is_signed
from app.services.event_delivery import DeliveryRules, SinkDelivery
from app.services.event_reports import EventReports
from app.services.notices import NoticeRules
from app.services.runner import Runner
from app.services.scaling_events import AUDIT_KINDS, ScalingEvent, make_event
from app.services.tracking import Failing
from app.services.webhook_delivery import WebhookDelivery, WebhookRules
from tests.fakes.billing import MemorySink
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.service_builders import a_runner, a_virtual_machine, load_of

SECRET = "sixteen bytes, or more"
RULES = DeliveryRules(push_every_s=5, timeout_s=5, max_batch=3, max_queued=10)
NOTICE_RULES = NoticeRules(
    at_maximum_s=300, denied_s=120, denied_lasts_s=20, failed_s=30, flap_changes=3, flap_s=600
)


class Kept:
    """A delivery that only keeps."""

    name, problem = "kept", ""

    def __init__(self) -> None:
        self.events: list[ScalingEvent] = []

    def put(self, event: ScalingEvent) -> None:
        self.events.append(event)

    def run(self, stop: object) -> None:
        raise AssertionError("not run here")

    def counters(self) -> dict[str, int]:
        return {"events_kept_sent": len(self.events)}

    def told(self) -> list[tuple[str, object]]:
        """Kinds and states, taken out."""
        found = [(event.kind, event.facts["state"]) for event in self.events]
        self.events.clear()
        return found


class World:
    """One runner that is watched."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.runner = a_runner(self.clock, a_virtual_machine(endpoint_id="ep-1"))
        self.kept = Kept()
        self.reports = EventReports(self.clock, VirtualConcurrency(self.clock), NOTICE_RULES, (self.kept,))
        self.runners = [self.runner]
        self.reports.connect(lambda: self.runners)
        self.reports.watch(self.runner)

    def load(self, cpus: float) -> None:
        self.runner.take_sample(load_of(cpus))
        self.runner.decide()

    def resized(self, kind: str) -> None:
        self.runner.audit.add(
            kind, why="load", origin=resources(1_000, 4), target=resources(2_000, 4), outcome="observed"
        )

    def look(self, seconds: float = 0.0) -> list[tuple[str, object]]:
        self.clock.advance(seconds)
        self.reports.look()
        return self.kept.told()


def an_event(runner: Runner | None = None, kind: str = "upscale", why: str = "the load") -> ScalingEvent:
    runner = runner or a_runner(FakeClock())
    sizes = (resources(1_000, 4), resources(2_000, 4))
    return make_event(runner, kind, why, now_ms=1_700_000_000_000, sizes=sizes)


# --- which ones -------------------------------------------------------------------------------------------


def test_a_resize_is_told_with_its_sizes_desired_and_actual() -> None:
    world = World()
    world.load(2)
    world.resized("upscale")
    (event,) = world.kept.events
    gib = 1 << 30
    facts = dict(event.facts)
    assert str(facts.pop("idempotency_key")).startswith("2023-11-14T22:13:20.000000Z-")
    assert facts == {
        "kind": "upscale",
        "state": None,
        "time": "2023-11-14T22:13:20.000000Z",
        "vm": "default/db",
        "namespace": "default",
        "name": "db",
        "uid": "uid-1",
        "endpoint_id": "ep-1",
        "node": "node-1",
        "from": {"cpu_m": 1_000, "memory_bytes": 4 * gib},
        "to": {"cpu_m": 2_000, "memory_bytes": 4 * gib},
        "desired": {"cpu_m": 2_000, "memory_bytes": 8 * gib},
        "actual": {"cpu_m": 1_000, "memory_bytes": 4 * gib},
        "why": "load",
        "worker": "worker1",
    }
    assert event.text == "default/db: upscale 1 CPU, 4 GiB to 2 CPU, 4 GiB: load"


@pytest.mark.parametrize(("entry", "kind"), AUDIT_KINDS.items())
def test_entries_of_the_trail_are_told_as_what_they_are(entry: str, kind: str) -> None:
    world = World()
    world.runner.audit.add(entry, why="x")
    assert world.kept.told() == [(kind, None)]
    assert kind in KINDS


def test_other_entries_and_runners_that_are_gone_tell_nothing() -> None:
    world = World()
    world.runner.audit.add("paused", why="x")
    world.runners.clear()
    world.look()
    world.resized("upscale")
    assert world.kept.told() == []


def test_another_desired_size_is_told_once() -> None:
    world = World()
    world.load(2)
    assert world.look() == [("desired", None)]
    assert world.look() == []
    world.load(3)
    assert world.look() == [("desired", None)]
    world.load(1)
    assert world.look() == []


def test_a_vm_at_its_maximum_is_told_after_a_while_and_when_it_is_over() -> None:
    world = World()
    vm = replace(world.runner.vm, max=resources(1_000, 4))
    world.runner.update_vm(vm)
    world.load(3)
    assert world.look() == []
    assert world.look(299) == []
    assert world.look(1) == [("at_maximum", "began")]
    assert world.look(1_000) == []
    world.load(0.1)
    assert ("at_maximum", "ended") in world.look(1)


def test_a_size_that_cannot_be_smaller_is_no_maximum() -> None:
    world = World()
    vm = replace(world.runner.vm, min=resources(1_000, 4), max=resources(1_000, 4))
    world.runner.update_vm(vm)
    world.load(3)
    world.look()
    assert world.look(1_000) == []


def test_a_monitor_that_denies_again_and_again_is_told_and_one_denial_is_not() -> None:
    world = World()
    world.look()
    world.runner.counters.denied += 1
    world.look(1)
    assert world.look(200) == []
    told = []
    for _ in range(14):
        world.runner.counters.denied += 1
        told.append(world.look(10))
    assert told == [[]] * 12 + [[("stays_denied", "began")], []]
    world.resized("downscale")
    assert world.look(1) == [("downscale", None), ("stays_denied", "ended")]


def test_a_permit_that_stays_away_is_told() -> None:
    world = World()
    world.load(3)
    world.runner.problem = "asked for 3 CPU, granted 1 CPU"
    world.runner.audit.add("permit_refused", why=world.runner.problem)
    world.look()
    assert world.look(120) == [("stays_denied", "began")]
    world.runner.problem = ""
    assert world.look(1) == [("stays_denied", "ended")]


def test_resizes_that_fail_are_told_until_one_succeeds() -> None:
    world = World()
    world.runner.failing = Failing(world.runner.now(), 1, "the platform said no")
    world.look()
    assert world.look(30) == [("not_resized", "began")]
    world.runner.failing = None
    assert world.look(1) == [("not_resized", "ended")]


def test_a_vm_that_flaps_is_told_and_rests_later() -> None:
    world = World()
    for kind in ("upscale", "upscale", "downscale", "upscale", "downscale"):
        world.clock.advance(10)
        world.resized(kind)
    world.kept.told()
    assert world.look(1) == [("flaps", "began")]
    assert world.look(500) == []
    assert world.look(100) == [("flaps", "ended")]


# --- sinks ------------------------------------------------------------------------------------------------


def test_a_sink_gets_batches_in_order_and_the_same_events_again_after_a_failure() -> None:
    sink = MemorySink()
    delivery = SinkDelivery(sink, RULES)
    events = [an_event() for _ in range(5)]
    for event in events:
        delivery.put(event)
    sink.refuse_late = PeerRefused("sink", "500")
    delivery.push(5)
    assert "500" in delivery.problem
    sink.refuse_late = None
    delivery.push(5)
    assert [len(batch) for _, batch in sink.batches] == [3, 3, 2]
    assert sink.batches[0] == sink.batches[1]
    assert [event["idempotency_key"] for event in sink.events] == [event.event_id for event in events]
    assert delivery.problem == ""
    assert delivery.counters() == {
        "events_http_sent": 5,
        "events_http_failed": 1,
        "events_http_dropped": 0,
        "events_http_waiting": 0,
    }


def test_a_queue_is_bounded_and_counts_what_it_drops() -> None:
    sink = MemorySink()
    delivery = SinkDelivery(sink, RULES)
    events = [an_event() for _ in range(13)]
    for event in events:
        delivery.put(event)
    delivery.push(5)
    assert [event["idempotency_key"] for event in sink.events] == [event.event_id for event in events[3:]]
    assert delivery.counters()["events_http_dropped"] == 3


def test_what_waits_is_delivered_once_more_when_the_worker_stops() -> None:
    clock = FakeClock()
    jobs, sink = VirtualConcurrency(clock), MemorySink()
    delivery, stop = SinkDelivery(sink, RULES), jobs.signal()
    jobs.spawn("delivery", lambda: delivery.run(stop))
    jobs.run()
    delivery.put(an_event())
    stop.set()
    jobs.run()
    assert len(sink.events) == 1
    assert sink.is_closed


# --- webhooks ---------------------------------------------------------------------------------------------


class Receiver:
    """A `WebhookPoster`; `answers` are errors or None, then None."""

    peer = "webhook ops"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.answers: deque[PeerError | None] = deque()
        self.posts: list[tuple[float, bytes, Mapping[str, str]]] = []
        self.is_closed = False

    def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> int:
        self.posts.append((self._clock.monotonic(), body, headers))
        problem = self.answers.popleft() if self.answers else None
        if problem is not None:
            raise problem
        return 204

    def close(self) -> None:
        self.is_closed = True


class Hook:
    """A webhook's job in virtual time."""

    def __init__(self, **changes: object) -> None:
        self.clock = FakeClock()
        self.jobs = VirtualConcurrency(self.clock)
        self.receiver = Receiver(self.clock)
        facts = {"name": "ops", "kinds": frozenset(NOTICES), "secret": SECRET, "template": None}
        rules = WebhookRules(**({"retry_for_s": 600.0} | facts | changes))  # type: ignore[arg-type]
        self.delivery = WebhookDelivery(self.receiver, rules, RULES, self.clock, jitter=lambda: 1.0)
        self.stop = self.jobs.signal()
        self.jobs.spawn("webhook", lambda: self.delivery.run(self.stop))
        self.jobs.run()

    def put(self, kind: str = "flaps") -> ScalingEvent:
        event = an_event(kind=kind)
        self.delivery.put(event)
        return event

    def count(self, what: str) -> int:
        return self.delivery.counters()[f"events_ops_{what}"]


def test_a_webhook_gets_its_kinds_signed_and_named() -> None:
    hook = Hook()
    hook.put("upscale")
    event = hook.put("flaps")
    hook.jobs.advance(5)
    ((_, body, headers),) = hook.receiver.posts
    assert json.loads(body) == json.loads(event.encode())
    assert (headers["X-Vmscaler-Event"], headers["X-Vmscaler-Delivery"]) == ("flaps", event.event_id)
    assert is_signed(SECRET, body, headers["X-Vmscaler-Signature"], hook.clock.wall_ms() // 1000)


def test_a_webhook_is_tried_again_with_growing_pauses_in_order() -> None:
    hook = Hook()
    hook.receiver.answers.extend([PeerUnreachable("ops", "no connection")] * 4)
    first, second = hook.put(), hook.put()
    hook.jobs.advance(60)
    times = [at for at, _, _ in hook.receiver.posts]
    assert [later - at for at, later in pairwise(times)] == [1, 2, 4, 8, 0]
    ids = [headers["X-Vmscaler-Delivery"] for _, _, headers in hook.receiver.posts]
    assert ids == [first.event_id] * 5 + [second.event_id]
    assert (hook.count("sent"), hook.count("failed"), hook.delivery.problem) == (2, 4, "")


def test_each_try_has_a_signature_of_its_own_time() -> None:
    hook = Hook()
    hook.receiver.answers.append(PeerRefused("ops", "no", code=503))
    hook.put()
    hook.jobs.advance(10)
    signatures = {headers["X-Vmscaler-Signature"] for _, _, headers in hook.receiver.posts}
    assert len(signatures) == 2


def test_an_event_that_cannot_be_delivered_in_time_is_dropped_and_the_next_one_goes() -> None:
    hook = Hook(retry_for_s=20.0)
    hook.receiver.answers.extend([PeerRefused("ops", "no", code=500)] * 5)
    hook.put()
    last = hook.put()
    hook.jobs.advance(60)
    assert hook.receiver.posts[-1][2]["X-Vmscaler-Delivery"] == last.event_id
    assert (hook.count("sent"), hook.count("dropped"), hook.count("waiting")) == (1, 1, 0)


@pytest.mark.parametrize(("code", "tries"), [(400, 1), (422, 1), (429, 2), (403, 2)])
def test_a_body_that_is_refused_for_good_is_not_sent_again(code: int, tries: int) -> None:
    hook = Hook()
    hook.receiver.answers.append(PeerRefused("ops", "no", code=code))
    hook.put()
    hook.jobs.advance(30)
    assert len(hook.receiver.posts) == tries


def test_a_template_makes_the_body() -> None:
    hook = Hook(template='{"text":"{{text}}","cpu":{{to_cpu_m}}}')
    hook.put()
    hook.jobs.advance(5)
    body = json.loads(hook.receiver.posts[0][1])
    assert body == {"text": "default/db: flaps 1 CPU, 4 GiB to 2 CPU, 4 GiB: the load", "cpu": 2_000}


def test_every_event_has_every_value_that_a_template_may_name() -> None:
    bare = make_event(a_runner(FakeClock()), "flaps", "", now_ms=1, state="began")
    assert bare.values().keys() >= TEMPLATE_NAMES.keys()
    assert all(
        isinstance(bare.values()[name], int)
        for name, value in TEMPLATE_NAMES.items()
        if isinstance(value, int)
    )


def test_a_stop_ends_the_pauses_and_tries_what_waits_once_more() -> None:
    hook = Hook()
    hook.receiver.answers.extend([PeerUnreachable("ops", "no connection")] * 2)
    hook.put()
    hook.jobs.advance(5.5)
    hook.stop.set()
    hook.jobs.run()
    assert (len(hook.receiver.posts), hook.receiver.is_closed) == (2, True)
