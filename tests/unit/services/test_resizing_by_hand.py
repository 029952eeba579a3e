"""An operator's fixed size on its way through a worker: every rule of a resize still holds."""

from __future__ import annotations

import json

from app.core.resources import resources
from app.ports.peers import DownscaleAnswer
from app.ports.store import Intent
from app.ports.vm import VmKey
from app.services.fixed_size import FixedSize
from app.services.taking_up import take_up
from tests.core_builders import GIB
from tests.service_builders import BUCKET, a_virtual_machine, an_intent
from tests.worker_harness import Worker


def fixed(cpu: int, mem_gib: int) -> Intent:
    return an_intent("resize", FixedSize(cpu, mem_gib * GIB).value)


def at_work() -> Worker:
    """One whose VM uses 1 CPU and 4 GiB, and has a load for just that."""
    worker = Worker()
    worker.sample(1)
    worker.log.clear()
    return worker


def take(worker: Worker, *intents: Intent) -> None:
    worker.take_up(*intents)
    worker.settle()


def test_more_by_hand_goes_permit_platform_monitor_at_once() -> None:
    worker = at_work()
    take(worker, fixed(3_000, 6))
    assert worker.log == ["permit 3000/6", "platform 3000/6", "monitor up 3000/6"]
    worker.sample(0.5)
    assert worker.runner.state.vm.use == resources(3_000, 6)


def test_less_by_hand_needs_the_monitors_leave() -> None:
    worker = at_work()
    worker.monitor.answer = DownscaleAnswer(False, "too full")
    take(worker, fixed(500, 2))
    assert worker.log == ["monitor down 500/2"]
    assert worker.runner.state.vm.use == resources(1_000, 4)
    assert worker.runner.counters.denied == 1


def test_more_by_hand_gets_no_more_than_the_permit() -> None:
    worker = at_work()
    worker.scheduler.limit = resources(2_000, 4)
    take(worker, fixed(3_000, 6))
    assert worker.runner.state.vm.use == resources(2_000, 4)
    assert "fixed by hand at 3 CPU, 6 GiB" in worker.runner.why()


def test_at_its_end_the_load_counts_again() -> None:
    worker = at_work()
    take(worker, fixed(3_000, 6))
    take(worker)
    worker.sample(1)
    assert worker.runner.state.vm.use == resources(1_000, 4)


def test_a_pause_goes_before_it() -> None:
    worker = at_work()
    take(worker, an_intent(), fixed(3_000, 6))
    assert worker.runner.state.vm.use == resources(1_000, 4)
    assert "paused by ada@ops" in worker.runner.why()
    take(worker, fixed(3_000, 6))
    assert worker.runner.state.vm.use == resources(3_000, 6)


def test_the_resize_itself_names_the_operator_and_the_reason() -> None:
    worker = at_work()
    take(worker, fixed(3_000, 6))
    worker.sample(1)
    entries = [json.loads(raw) for _, raw in worker.states.events(BUCKET, VmKey("default/db"), 100)]
    resize = next(entry for entry in entries if entry["kind"] == "upscale")
    assert "by ada@ops" in resize["why"]
    assert "maintenance" in resize["why"]


def test_the_next_owner_keeps_it_from_the_first_moment() -> None:
    worker = at_work()
    take(worker, fixed(3_000, 6))
    worker.sample(1)
    grown = a_virtual_machine(use=resources(3_000, 6), observed=resources(3_000, 6))
    heir = Worker(grown, states=worker.states, intents=(fixed(3_000, 6),))
    heir.sample(1)
    assert heir.runner.state.vm.use == resources(3_000, 6)
    assert not [line for line in heir.log if line.startswith(("platform", "monitor down"))]


def test_before_its_intents_are_read_the_next_owner_asks_for_nothing() -> None:
    worker = at_work()
    take(worker, fixed(3_000, 6))
    runner = worker.runner
    runner.has_intents = False
    worker.log.clear()
    worker.sample(0.5)
    assert worker.log == []
    take_up([fixed(3_000, 6)], [runner])
    assert runner.has_intents
