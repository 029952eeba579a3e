"""The workers' app with tasks that get a worker stuck, for tests of the watchdog."""

from __future__ import annotations

import time

import gevent

from workers import app


@app.task(name="test.block_loop")
def block_loop() -> None:
    """Keep the whole process busy, so that no greenlet gets a turn."""
    while True:
        sum(range(1000))


@app.task(name="test.block_consumer")
def block_consumer() -> None:
    """Keep the consumer from its queues; everything else goes on."""
    app.vmscaler_agent._queues_changed.__self__._consumer.call_soon(lambda: gevent.sleep(3600))


@app.task(name="test.pause_loop")
def pause_loop(seconds: float) -> None:
    """Keep the process busy for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
