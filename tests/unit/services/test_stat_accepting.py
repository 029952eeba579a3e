"""A pushed stat counts like a polled sample, once, and only under the lease."""

from __future__ import annotations

import gevent
import pytest

from app.errors import OwnershipLost, PeerRefused, StoreUnavailable
from app.ports.store import FencingToken
from app.protocols.prometheus_text import KERNEL_BYTES
from app.protocols.stats import Stat
from app.services.stat_accepting import StatAccepting
from app.services.stat_fates import Fate
from tests.core_builders import GIB
from tests.service_builders import BUCKET, a_virtual_machine
from tests.worker_harness import Worker


def a_stat(timestamp: int, load: float = 0.5, key: str = "default/db") -> Stat:
    return Stat(key, load, load, 4.0 * GIB, 3.0 * GIB, timestamp)


class Accepting:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.accepted: list[tuple[int, int]] = []
        self.part = StatAccepting(
            worker.supervisor,
            worker.guards,
            lambda runner: worker.supervisor.commit(BUCKET, [runner]),
            worker.scaling.dispatch,
            worker.supervisor.crashed,
            self._note,
        )

    def _note(self, stat: Stat, token: FencingToken) -> None:
        self.accepted.append((stat.timestamp, token))


@pytest.fixture
def accepting() -> Accepting:
    return Accepting(Worker(a_virtual_machine(metrics=None)))


def test_it_is_a_sample_that_scales_the_vm_though_nothing_is_polled(accepting: Accepting) -> None:
    assert accepting.part.accept(a_stat(1, load=1.5)) is Fate.ACCEPTED
    worker = accepting.worker
    metrics = worker.runner.state.metrics
    assert metrics is not None
    assert (metrics.load1, metrics.mem_bytes) == (1.5, GIB + KERNEL_BYTES)
    assert worker.runner.sampling.at_ms is not None
    worker.settle()
    assert "upscale" in worker.audit()
    assert accepting.accepted == [(1, 1)]


def test_one_that_is_not_newer_is_late_for_the_next_owner_too(accepting: Accepting) -> None:
    accepting.part.accept(a_stat(5))
    assert accepting.part.accept(a_stat(5)) is Fate.LATE
    assert accepting.part.accept(a_stat(4)) is Fate.LATE
    worker = accepting.worker
    worker.supervisor.lost(BUCKET)
    worker.guards.token = FencingToken(2)
    worker.supervisor.acquired(BUCKET, FencingToken(2))
    assert accepting.part.accept(a_stat(5)) is Fate.LATE
    assert accepting.part.accept(a_stat(6)) is Fate.ACCEPTED
    assert accepting.accepted == [(5, 1), (6, 2)]


def test_a_commit_without_an_answer_is_made_again_and_the_stat_counts_once(accepting: Accepting) -> None:
    worker = accepting.worker
    polls = worker.runner.counters.polls
    worker.states.is_away = True
    with pytest.raises(StoreUnavailable):
        accepting.part.accept(a_stat(5))
    worker.states.is_away = False
    assert accepting.part.accept(a_stat(5)) is Fate.ACCEPTED
    assert accepting.part.accept(a_stat(5)) is Fate.LATE
    assert worker.runner.counters.polls == polls + 1
    assert accepting.accepted == [(5, 1)]


def test_a_vm_that_is_not_here_is_tried_again(accepting: Accepting) -> None:
    with pytest.raises(PeerRefused):
        accepting.part.accept(a_stat(5, key="default/other"))


def test_nothing_is_accepted_without_the_lease(accepting: Accepting) -> None:
    accepting.worker.guards.is_lost = True
    with pytest.raises(OwnershipLost):
        accepting.part.accept(a_stat(5))
    assert accepting.worker.runner.stat_ms is None


def test_a_runner_that_ends_while_it_is_written_leaves_the_stat_to_the_next_owner(
    accepting: Accepting,
) -> None:
    worker = accepting.worker
    runner = worker.runner
    real = accepting.part._commit

    def commit_and_lose(written: object) -> None:
        real(runner)
        worker.supervisor.lost(BUCKET)

    accepting.part._commit = commit_and_lose
    with pytest.raises(OwnershipLost):
        accepting.part.accept(a_stat(5))
    assert accepting.accepted == []
    accepting.part._commit = real
    worker.supervisor.acquired(BUCKET, FencingToken(2))
    gevent.sleep(0)
    assert accepting.part.accept(a_stat(5)) is Fate.LATE  # it was written after all
