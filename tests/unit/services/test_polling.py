from __future__ import annotations

from collections.abc import Sequence

import gevent
import pytest
from gevent.event import Event

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.errors import OwnershipLost, PeerTimedOut, StoreUnavailable
from app.ports.store import FencingToken
from app.ports.vm import Address
from app.services.agent_settings import COMMIT_EVERY_VMS, MAX_POLLS
from app.services.polling import Polling, PollSlots
from app.services.runner import Runner
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, a_virtual_machine, some_settings

PAGE = b"node_load1 0.5\nnode_load5 0.4\nnode_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 3e9\n"


class HeldLease:
    token = FencingToken(1)

    def __init__(self, checks: int = 1_000_000) -> None:
        self._checks = checks

    def limit_s(self, setting_s: float) -> float:
        self.check()
        return setting_s

    def check(self) -> None:
        self._checks -= 1
        if self._checks < 0:
            raise OwnershipLost("bucket", "the lease has ended")


class Pages:
    """Pages by the VM's port; a port without one waits for the gate."""

    def __init__(self) -> None:
        self.gate = Event()
        self.bad: dict[int, bytes] = {}
        self.silent: set[int] = set()
        self.most = self.now = 0

    def fetch(self, address: Address, *, timeout_s: float) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if address.port in self.silent:
                self.gate.wait()
                raise PeerTimedOut(f"{address.host}:{address.port}", "no page in time")
            gevent.sleep(0)
            return self.bad.get(address.port, PAGE)
        finally:
            self.now -= 1

    def forget(self, address: Address) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class Bench:
    def __init__(self, count: int) -> None:
        clock = FakeClock()
        self.runners = [
            a_runner(clock, a_virtual_machine(name=f"db-{i}", metrics=Address("127.0.0.1", 1000 + i)))
            for i in range(count)
        ]
        self.pages = Pages()
        self.commits: list[int] = []
        self.dispatched: list[str] = []
        self.crashes: list[Exception] = []
        self.polling = Polling(
            some_settings(),
            SystemClock(),
            GreenConcurrency(),
            self.pages,
            self._commit,
            lambda runner: self.dispatched.append(runner.key),
            lambda runner, err: self.crashes.append(err),
        )

    def _commit(self, runners: Sequence[Runner]) -> None:
        self.commits.append(len(runners))


def test_every_vm_is_polled_committed_and_dispatched() -> None:
    bench = Bench(120)
    bench.polling.poll(bench.runners, HeldLease())
    assert sum(bench.commits) == 120
    assert len(set(bench.dispatched)) == 120
    assert max(bench.commits) <= COMMIT_EVERY_VMS + MAX_POLLS
    assert all(runner.sampling.at_ms for runner in bench.runners)


def test_no_more_than_32_polls_are_under_way() -> None:
    bench = Bench(100)
    bench.polling.poll(bench.runners, HeldLease())
    assert bench.pages.most <= MAX_POLLS


def test_slow_peers_hold_up_nobody_else() -> None:
    bench = Bench(100)
    bench.pages.silent = {1000 + i for i in range(MAX_POLLS)}
    job = gevent.spawn(bench.polling.poll, bench.runners, HeldLease())
    with gevent.Timeout(20):
        while len(bench.dispatched) < 100 - MAX_POLLS:
            gevent.sleep(0.01)
    assert not job.ready()
    bench.pages.gate.set()
    job.get(timeout=20)
    assert len(bench.dispatched) == 100
    assert bench.polling.failures == MAX_POLLS


def test_a_vm_whose_last_poll_still_runs_is_not_polled_twice_at_once() -> None:
    bench = Bench(1)
    bench.pages.silent = {1000}
    first = gevent.spawn(bench.polling.poll, bench.runners, HeldLease())
    gevent.sleep(0.01)
    bench.polling.poll(bench.runners, HeldLease())
    assert bench.polling.skipped == 1
    bench.pages.gate.set()
    first.get(timeout=10)


def test_a_broken_page_harms_its_own_vm_only() -> None:
    bench = Bench(3)
    bench.pages.bad = {1001: b"node_load1 NaN\n"}
    bench.polling.poll(bench.runners, HeldLease())
    assert [runner.sampling.error is None for runner in bench.runners] == [True, False, True]
    assert "node_load1" in str(bench.runners[1].sampling.error)
    assert len(bench.dispatched) == 3


def test_our_own_failure_in_one_vm_leaves_the_others() -> None:
    bench = Bench(3)
    bench.runners[0].take_sample = None  # type: ignore[assignment, method-assign]
    bench.polling.poll(bench.runners, HeldLease())
    assert len(bench.crashes) == 1
    assert len(bench.dispatched) == 2


def test_nothing_is_begun_after_the_lease_has_ended() -> None:
    bench = Bench(10)
    with pytest.raises(OwnershipLost):
        bench.polling.poll(bench.runners, HeldLease(checks=4))
    gevent.sleep(0.01)
    assert bench.polling.polls < 10


def test_without_a_commit_nothing_is_dispatched() -> None:
    bench = Bench(2)

    def refuse(runners: Sequence[Runner]) -> None:
        raise StoreUnavailable("redis", "no answer")

    bench.polling._commit = refuse
    with pytest.raises(StoreUnavailable):
        bench.polling.poll(bench.runners, HeldLease())
    assert bench.dispatched == []


def test_a_place_is_free_again_once_its_poll_counts_as_slow() -> None:
    clock = FakeClock()
    slots = PollSlots(clock)
    for _ in range(MAX_POLLS):
        assert slots.try_take() is not None
    assert slots.try_take() is None
    clock.advance(0.3)
    assert slots.try_take() is not None


def test_a_lease_that_ends_takes_no_place_with_it() -> None:
    bench = Bench(1)
    for _ in range(MAX_POLLS + 1):
        with pytest.raises(OwnershipLost):
            bench.polling.poll(bench.runners, HeldLease(checks=0))
    bench.polling.poll(bench.runners, HeldLease())
    assert bench.dispatched == ["default/db-0"]
