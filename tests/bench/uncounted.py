"""Celery's command line, in a process that counts nothing: `python -m tests.bench.uncounted worker …`."""

from __future__ import annotations

from celery.__main__ import main

from app.protocols.metric_families import Counter, Histogram

if __name__ == "__main__":
    Counter.add = Histogram.observe = lambda *args, **named: None  # type: ignore[method-assign,assignment]
    main()
