from __future__ import annotations

import importlib.util
import logging
import sys

import pytest

from app.adapters.otel_tracing import OtelTracer, otlp_exporter
from app.bootstrap.tracing import start_tracing, stop_tracing
from app.config import build_settings
from app.errors import ConfigurationError
from app.ports.tracing import current_span, span

IS_INSTALLED = importlib.util.find_spec("opentelemetry") is not None
needs_packages = pytest.mark.skipif(not IS_INSTALLED, reason="the extra otel is not installed")


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)


@pytest.mark.usefixtures("without_packages")
def test_without_the_packages_a_warning_says_what_to_install_and_all_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    start_tracing(build_settings({"tracing": {"enabled": True}}, {}), "worker1")
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == "no traces are made"
    assert "install vmscaler[otel]" in record.reason  # type: ignore[attr-defined]
    with span("vmscaler.tick"):
        assert current_span() == ""
    stop_tracing()


@pytest.mark.usefixtures("without_packages")
def test_without_the_packages_the_exporter_names_the_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"tracing\.enabled"):
        otlp_exporter("http://127.0.0.1:4318")


def test_off_is_the_default_and_loads_nothing() -> None:
    before = set(sys.modules)
    start_tracing(build_settings({}, {}), "worker1")
    assert not [name for name in set(sys.modules) - before if name.startswith("opentelemetry")]


@needs_packages
def test_spans_are_exported_with_their_parents_facts_and_problems() -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # type: ignore[import-not-found,unused-ignore]
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    tracer = OtelTracer("worker1", "1.0", 1.0, exporter)
    with tracer.span("vmscaler.poll_bucket", "", {"bucket": "b"}):
        carried = tracer.current()
    assert tracer.current() == ""
    with pytest.raises(ValueError, match="broken"), tracer.span("vmscaler.upscale", carried, {"vm": "ns/a"}):
        raise ValueError("broken")
    tracer.past("wait until observed", carried, (1_000, 3_000), {"cpu_m": 2_000}, "not applied")
    tracer.past("unreadable parent", "garbage", (5, 4), {}, "")
    tracer.close()
    poll, task, past, alone = exporter.get_finished_spans()
    assert {poll.context.trace_id, task.context.trace_id, past.context.trace_id} == {poll.context.trace_id}
    assert task.parent.span_id == past.parent.span_id == poll.context.span_id
    assert (task.status.is_ok, past.status.is_ok) == (False, False)
    assert past.status.description == "not applied"
    assert (past.start_time, past.end_time) == (1_000_000_000, 3_000_000_000)
    assert dict(past.attributes) == {"vmscaler.cpu_m": 2_000}
    assert alone.parent is None
    assert alone.end_time == alone.start_time
    assert poll.resource.attributes["service.instance.id"] == "worker1"


@needs_packages
def test_a_trace_is_made_whole_or_not_at_all() -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # type: ignore[import-not-found,unused-ignore]
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    tracer = OtelTracer("worker1", "1.0", 0.0, exporter)
    with tracer.span("vmscaler.tick", "", {}):
        carried = tracer.current()
    tracer.past("wait until observed", carried, (1, 2), {}, "")
    tracer.close()
    assert exporter.get_finished_spans() == ()
