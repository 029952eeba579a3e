"""What is counted for Prometheus while a VM is scaled, and that no error's text becomes a label."""

from __future__ import annotations

import gevent
import pytest

from app.core.resources import resources
from app.errors import InvalidInput, OwnershipLost, PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports import agent_metrics as names
from app.ports.own_metrics import APPLIED, DENIED, LATENCY, TICK_LATENESS, TICKS
from app.ports.peers import DownscaleAnswer
from app.ports.store import BucketName, FencingToken
from app.ports.vm import VmKey
from app.protocols.metric_families import Counter
from app.services.counting import code_of, count_change, outcome_of
from app.services.rhythm import Rhythm
from app.services.tracking import Operation
from tests.fakes.clock import FakeClock
from tests.service_builders import a_runner, some_settings
from tests.worker_harness import Guards, Worker


class Since:
    """How much a counter has grown since it was noted."""

    def __init__(self, counter: Counter, *values: str) -> None:
        self._counter, self._values = counter, values
        self._before = counter.value(*values)

    def __call__(self) -> float:
        return self._counter.value(*self._values) - self._before


@pytest.mark.parametrize(
    ("err", "outcome", "code"),
    [
        (None, "ok", "200"),
        (PeerTimedOut("p", "secret-text"), "timeout", "timeout"),
        (PeerUnreachable("p", "secret-text"), "unreachable", "unreachable"),
        (PeerRefused("p", "secret-text", code=409), "refused", "409"),
        (PeerRefused("p", "secret-text", code=418), "refused", "refused"),
        (PeerRefused("p", "secret-text"), "refused", "refused"),
        (InvalidInput("page", "secret-text"), "unreadable", "unreadable"),
        (OwnershipLost("b", "secret-text"), "lease_lost", "lease_lost"),
        (PeerError("p", "secret-text"), "other", "other"),
    ],
)
def test_an_error_is_counted_by_a_word_never_by_its_text(
    err: Exception | None, outcome: str, code: str
) -> None:
    assert (outcome_of(err), code_of(err)) == (outcome, code)


def test_a_change_counts_cpus_and_mib_each_in_its_direction() -> None:
    directions = {"direction": names.DIRECTIONS}
    pair = Counter("cpu_total", "CPUs", directions), Counter("mem_total", "MiB", directions)
    count_change(pair, resources(1_000, 4), resources(250, 6), 2**30)
    count_change(pair, None, resources(250, 6), 2**30)
    assert [pair[0].value("dec"), pair[0].value("inc")] == [0.75, 0]
    assert [pair[1].value("dec"), pair[1].value("inc")] == [0, 2_048]


def test_an_upscale_is_counted_at_every_step_that_it_takes() -> None:
    worker = Worker()
    asked, given = Since(names.SCHEDULER_REQUESTS, "200"), Since(names.SCHEDULER_ACCEPTED[0], "inc")
    sized, told = Since(names.NEONVM_REQUESTED[0], "inc"), Since(names.NEONVM_OUTBOUND, "ok")
    heard = Since(names.MONITOR_OUTBOUND, "UpscaleNotification", "ok")
    decided, applied = Since(names.NEXT_ACTIONS), APPLIED.count("upscale", "observed")
    worker.sample(cpus=2.5)
    worker.until(lambda: worker.runner.state.vm.use.cpu > 1_000)
    worker.platform_news()
    worker.until(lambda: heard() > 0)
    grown = (worker.runner.state.vm.use.cpu - 1_000) / 1_000
    assert sized() == grown
    assert given() == grown
    assert told() == 1
    assert asked() >= 1
    assert decided() > 0
    assert APPLIED.count("upscale", "observed") == applied + 1


def test_a_change_takes_from_its_decision_on_so_what_waits_in_the_queue_counts() -> None:
    worker = Worker()
    run, latencies = worker.queue.run, LATENCY.count("upscale", "observed")
    begun: list[Operation] = []

    def run_late(kind: str, bucket: BucketName, key: VmKey) -> None:
        gevent.sleep(0.05)
        run(kind, bucket, key)

    def note_operation() -> None:
        if worker.runner.operation is not None:
            begun.append(worker.runner.operation)

    worker.queue.run = run_late
    worker.platform.before_apply = note_operation
    worker.sample(cpus=2.5)
    worker.until(lambda: LATENCY.count("upscale", "observed") == latencies + 1)
    assert begun[0].since_ms - begun[0].decided_ms >= 50
    assert worker.runner.wanted_ms is None


def test_a_downscale_that_is_denied_was_asked_for_and_not_approved() -> None:
    worker = Worker()
    worker.monitor.answer = DownscaleAnswer(False, "needs 3 GiB")
    asked, approved = Since(names.MONITOR_REQUESTED[0], "dec"), Since(names.MONITOR_APPROVED[0], "dec")
    answered, denied = Since(names.MONITOR_OUTBOUND, "DownscaleRequest", "ok"), Since(DENIED)
    worker.sample(cpus=0.1)
    worker.until(lambda: denied() > 0)
    assert asked() > 0
    assert approved() == 0
    assert answered() == denied()


def test_a_tick_is_late_by_what_its_period_was_exceeded_and_an_owners_first_one_never() -> None:
    clock, guards = FakeClock(), Guards()
    rhythm, runners = Rhythm(clock, some_settings(poll_period_s=5.0)), [a_runner(clock)]
    before, ticks = TICK_LATENESS.count(), Since(TICKS, "done")

    def tick() -> None:
        with rhythm.tick(runners, guards):
            clock.advance(0.1)

    tick()
    clock.advance(100)
    guards.token = FencingToken(guards.token + 1)
    tick()
    assert TICK_LATENESS.count() == before
    clock.advance(6.9)
    tick()
    assert TICK_LATENESS.count() == before + 1
    assert ticks() == 3


def test_a_tick_that_an_error_ends_is_cut_short() -> None:
    rhythm, cut = Rhythm(FakeClock(), some_settings()), Since(TICKS, "cut_short")
    with pytest.raises(OwnershipLost), rhythm.tick([], Guards()):
        raise OwnershipLost("bucket", "gone")
    assert cut() == 1
