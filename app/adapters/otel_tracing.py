"""Traces by OpenTelemetry, sent by OTLP over HTTP; the packages are those of the extra `otel`.

They are imported as the tracer is made, and by nobody else: without them nothing is different. Spans are sent
in batches by a job of the library's own; a collector that is away costs spans, nothing else.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from app.errors import ConfigurationError
from app.ports.tracing import HEADER, Fact
from app.protocols.printable import printable

CLOSE_S = 3.0
"""For the last spans to be sent as the process ends."""

QUEUE_SPANS = 4_096
"""Spans that wait to be sent; more are dropped."""

EXPORT_S = 5
"""Limit of one request to the collector."""


def otlp_exporter(endpoint: str) -> Any:
    """Sends to the collector at `endpoint`, to its path for traces.

    Raises:
        ConfigurationError: the packages are not installed.
    """
    module = _load("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return module.OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_S)


class OtelTracer:
    """The `Tracer` of one process.

    Args:
        name: of the process, such as `worker1`.
        ratio: share of the traces that are made, 0 to 1; a trace is made whole or not at all.
        exporter: takes the spans; see `otlp_exporter`.

    Raises:
        ConfigurationError: the packages are not installed.
    """

    def __init__(self, name: str, version: str, ratio: float, exporter: Any) -> None:
        self._trace = _load("opentelemetry.trace")
        self._propagator = _load(
            "opentelemetry.trace.propagation.tracecontext"
        ).TraceContextTextMapPropagator()
        sdk, sampling = _load("opentelemetry.sdk.trace"), _load("opentelemetry.sdk.trace.sampling")
        resource = _load("opentelemetry.sdk.resources").Resource.create(
            {"service.name": "vmscaler", "service.version": version, "service.instance.id": name}
        )
        sampler = sampling.ParentBased(sampling.TraceIdRatioBased(ratio))
        self._provider = sdk.TracerProvider(resource=resource, sampler=sampler, shutdown_on_exit=False)
        batches = _load("opentelemetry.sdk.trace.export").BatchSpanProcessor(
            exporter, max_queue_size=QUEUE_SPANS
        )
        self._provider.add_span_processor(batches)
        self._tracer = self._provider.get_tracer("vmscaler", version)

    def span(self, name: str, parent: str, facts: Mapping[str, Fact]) -> AbstractContextManager[object]:
        """See `Tracer.span`."""
        made: AbstractContextManager[object] = self._tracer.start_as_current_span(
            name, context=self._context(parent), attributes=_attributes(facts), record_exception=False
        )
        return made

    def past(
        self, name: str, parent: str, times_ms: tuple[int, int], facts: Mapping[str, Fact], problem: str
    ) -> None:
        """See `Tracer.past`."""
        begun, ended = (at * 1_000_000 for at in times_ms)
        made = self._tracer.start_span(
            name, context=self._context(parent), attributes=_attributes(facts), start_time=begun
        )
        if problem:
            made.set_status(self._trace.Status(self._trace.StatusCode.ERROR, printable(problem)))
        made.end(end_time=max(begun, ended))

    def current(self) -> str:
        """See `Tracer.current`."""
        current = self._trace.get_current_span().get_span_context()
        if not current.is_valid:
            return ""
        return f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}"

    def close(self) -> None:
        """See `Tracer.close`."""
        self._provider.force_flush(int(CLOSE_S * 1000))
        self._provider.shutdown()

    def _context(self, parent: str) -> Any:
        """None is the current one; a parent that can't be read is none."""
        return self._propagator.extract({HEADER: parent}) if parent else None


def _attributes(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {
        f"vmscaler.{name}": value if isinstance(value, int) else printable(value)
        for name, value in facts.items()
    }


def _load(module: str) -> Any:
    """A module of the extra, which may not be there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        problem = ".tracing.enabled: the packages of OpenTelemetry are missing; install vmscaler[otel]"
        raise ConfigurationError([problem]) from None
