"""Jobs on greenlets are counted from their spawning to their end, however they end."""

from __future__ import annotations

import gevent

from app.adapters.green import GreenConcurrency


def test_a_job_counts_until_it_ends_fails_or_is_cancelled() -> None:
    concurrency = GreenConcurrency()
    stop = concurrency.signal()
    waits = concurrency.spawn("waits", lambda: stop.wait())  # type: ignore[arg-type]
    fails = concurrency.spawn("fails", lambda: 1 / 0)  # type: ignore[arg-type]
    never = concurrency.spawn("never", lambda: None)
    never.cancel()
    assert concurrency.jobs == 3
    fails.join(10)
    never.join(10)
    gevent.idle()
    assert concurrency.jobs == 1
    stop.set()
    waits.join(10)
    gevent.idle()
    assert concurrency.jobs == 0
