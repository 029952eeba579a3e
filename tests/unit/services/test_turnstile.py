"""So many waits for peers at once: in the order in which they came, the slow ones not counted."""

from __future__ import annotations

import pytest

from app.services.monitor_links import DIALS_AT_ONCE
from app.services.polling import LOOK_EVERY_S
from app.services.runner import Runner
from app.services.scaling import TICKS_AT_ONCE
from app.services.turnstile import Turnstile
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.service_builders import a_virtual_machine
from tests.worker_harness import Worker


class Crowd:
    """Jobs that go through a turnstile of two places; each stays for as long as it is told."""

    def __init__(self, **stays_s: float) -> None:
        self.clock = FakeClock()
        self.jobs = VirtualConcurrency(self.clock)
        self.turnstile = Turnstile(self.clock, self.jobs, 2)
        self.events: list[str] = []
        for name, stay_s in stays_s.items():
            self.send(name, stay_s)

    def send(self, name: str, stay_s: float) -> None:
        self.jobs.spawn(name, lambda: self._go(name, stay_s))

    def _go(self, name: str, stay_s: float) -> None:
        with self.turnstile.turn():
            self.events.append(f"{name} in")
            self.jobs.sleep(stay_s)
        self.events.append(f"{name} out")

    @property
    def inside(self) -> list[str]:
        return [each.split()[0] for each in self.events if each.endswith("in")]


def test_no_more_than_that_are_inside_and_the_others_follow_in_their_order() -> None:
    crowd = Crowd(a=0.1, b=0.15, c=0.1, d=0.1)
    crowd.jobs.run()
    assert (crowd.inside, crowd.turnstile.waiting) == (["a", "b"], 2)
    crowd.jobs.advance(0.1)
    assert crowd.inside == ["a", "b", "c"]
    crowd.jobs.advance(0.3)
    assert crowd.inside == ["a", "b", "c", "d"]
    assert not crowd.jobs.alive


def test_whoever_comes_later_does_not_pass_those_that_wait() -> None:
    crowd = Crowd(a=0.1, b=0.1, c=0.1)
    crowd.jobs.run()
    crowd.jobs.advance(0.05)
    crowd.send("late", 0.1)
    crowd.jobs.advance(1.0)
    assert crowd.inside == ["a", "b", "c", "late"]


def test_those_that_wait_long_for_their_peer_keep_nobody_out() -> None:
    crowd = Crowd(a=1_000.0, b=1_000.0, c=0.1, d=0.1)
    crowd.jobs.advance(0.2 + 2 * LOOK_EVERY_S)
    assert crowd.inside == ["a", "b", "c", "d"]


def test_while_it_must_give_way_only_a_few_go_through_and_then_the_others() -> None:
    crowd = Crowd()
    is_pressed = [True]
    crowd.turnstile = Turnstile(crowd.clock, crowd.jobs, 8)
    crowd.turnstile.give_way(lambda: is_pressed[0])
    for number in range(5):
        crowd.send(f"n{number}", 0.15)
    crowd.jobs.advance(0.1)
    assert crowd.inside == ["n0", "n1"]
    is_pressed[0] = False
    crowd.jobs.advance(LOOK_EVERY_S)
    assert len(crowd.inside) == 5


def test_one_whose_turn_fails_leaves_its_place() -> None:
    crowd = Crowd()

    def fails() -> None:
        with pytest.raises(RuntimeError), crowd.turnstile.turn():
            raise RuntimeError("a bug")

    for _ in range(3):
        crowd.jobs.spawn("fails", fails)
    crowd.send("after", 0.1)
    crowd.jobs.advance(0.2)
    assert crowd.inside == ["after"]


def test_a_worker_that_takes_over_many_vms_asks_and_dials_for_so_many_at_a_time() -> None:
    many = TICKS_AT_ONCE + 20
    worker = Worker(
        *(a_virtual_machine(name=f"vm-{n}", uid=f"u-{n}") for n in range(many)),
        is_ready=False,
    )
    worker.until(lambda: len(worker.scheduler.questions) == worker.monitor.connections == many)
    assert worker.scheduler.most_at_once == TICKS_AT_ONCE
    assert worker.monitor.most_at_once == DIALS_AT_ONCE


def test_a_vm_that_is_let_go_while_its_tick_waits_asks_nobody() -> None:
    worker = Worker(*(a_virtual_machine(name=f"vm-{n}", uid=f"u-{n}") for n in range(TICKS_AT_ONCE + 20)))
    worker.settle()
    last = worker.supervisor.runners()[-1]
    for runner in worker.supervisor.runners():
        worker.scaling.dispatch(tick_again(runner))
    last.is_closed = True
    before = len(worker.scheduler.questions)
    worker.until(lambda: len(worker.scheduler.questions) == before + TICKS_AT_ONCE + 19)
    worker.settle()
    assert [each.vm.key for each in worker.scheduler.questions[before:]].count(last.key) == 0


def tick_again(runner: Runner) -> Runner:
    """The runner, whose scheduler wants to hear of it."""
    runner.tell_scheduler_is_new()
    runner.decide()
    return runner
