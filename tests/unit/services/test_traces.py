"""One trace from a tick to the resize that is observed, and nothing at all while traces are off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery

from app.core.events import PlatformStarting
from app.core.resources import resources
from app.ports.log_context import log_facts
from app.ports.runtime import Monotonic
from app.ports.tracing import current_span, past_span, span, step, trace_headers, use_tracer
from app.services.tracking import Operation
from tests.fakes.clock import FakeClock
from tests.fakes.tracing import KeepingTracer
from tests.service_builders import BUCKET, a_runner
from tests.worker_harness import Worker


@pytest.fixture
def tracer() -> Iterator[KeepingTracer]:
    kept = KeepingTracer()
    use_tracer(kept)
    yield kept
    use_tracer(None)


def test_a_resize_is_one_trace_from_the_poll_to_the_observed_size(tracer: KeepingTracer) -> None:
    worker = Worker()
    tracer.spans.clear()
    with span("vmscaler.poll_bucket", bucket=BUCKET):
        worker.sample(2)
    assert worker.runner.state.vm.use == resources(2_000, 8)
    poll = tracer.named("vmscaler.poll_bucket")
    ours = [found for found in tracer.spans if found.trace == poll.trace]
    assert {found.name for found in ours} >= {
        "send scaling task",
        "ask scheduler",
        "ask platform",
        "wait until observed",
    }
    assert tracer.named("send scaling task").parent == poll.number
    observed = tracer.named("wait until observed")
    assert observed.parent == tracer.named("ask platform").number
    assert dict(observed.facts) == {"vm": "default/db", "cpu_m": 2_000, "mem_slots": 8}
    assert observed.times_ms[0] <= observed.times_ms[1]


def test_what_changes_no_size_begins_no_trace(tracer: KeepingTracer) -> None:
    worker = Worker()
    worker.sample(1)
    assert tracer.spans == []


def test_a_size_that_is_not_applied_ends_its_trace_with_the_problem(tracer: KeepingTracer) -> None:
    clock = FakeClock()
    runner = a_runner(clock)
    with span("ask platform"):
        runner.apply(PlatformStarting(resources(2_000, 8)))
        deadline, since = Monotonic(clock.monotonic() + 30), clock.wall_ms()
        sizes = resources(1_000, 4), resources(2_000, 8)
        runner.operation = Operation(
            "upscale", *sizes, "load", since, since, deadline, is_accepted=True, trace=current_span()
        )
    clock.advance(31)
    assert runner.check_overdue()
    waited = tracer.named("wait until observed")
    assert waited.problem.startswith("accepted, but 1 CPU, 4 GiB observed after 30 s")
    assert waited.parent == tracer.named("ask platform").number
    assert waited.times_ms == (since, since + 31_000)


def test_a_task_goes_on_in_the_trace_of_its_sender_and_its_lines_name_it(tracer: KeepingTracer) -> None:
    app = Celery("test", task_cls="workers.bound_task:BoundTask", set_as_current=False)
    seen: dict[str, str] = {}

    @app.task(name="vmscaler.upscale")  # type: ignore[untyped-decorator]
    def upscale(vm: str, bucket: str) -> None:
        seen.update(log_facts())

    with span("vmscaler.poll_bucket"):
        headers = trace_headers()
    upscale.apply(kwargs={"vm": "ns/a", "bucket": "b"}, headers=headers)
    poll, task = tracer.spans
    assert (task.name, task.trace, task.parent) == ("vmscaler.upscale", poll.trace, poll.number)
    assert seen["trace"] == str(poll.trace)


@pytest.mark.parametrize("header", [7, None, "x" * 1_000])
def test_a_header_that_is_none_begins_a_trace_of_its_own(tracer: KeepingTracer, header: object) -> None:
    app = Celery("test", task_cls="workers.bound_task:BoundTask", set_as_current=False)

    @app.task(name="vmscaler.tick")  # type: ignore[untyped-decorator]
    def tick() -> None:
        """Nothing to do."""

    tick.apply(headers={"traceparent": header})
    assert tracer.named("vmscaler.tick").parent == 0


def test_while_traces_are_off_nothing_is_carried() -> None:
    with span("vmscaler.poll_bucket"), step("ask scheduler"):
        assert current_span() == ""
        assert trace_headers() == {}
    past_span("wait until observed", parent="00-1-1-01", times_ms=(1, 2))


def test_another_tracer_closes_the_one_before() -> None:
    first, second = KeepingTracer(), KeepingTracer()
    use_tracer(first)
    use_tracer(second)
    assert (first.is_closed, second.is_closed) == (True, False)
    use_tracer(None)
    assert second.is_closed
