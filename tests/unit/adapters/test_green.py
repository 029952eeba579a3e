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
    until_jobs_are(concurrency, 1)
    stop.set()
    waits.join(10)
    until_jobs_are(concurrency, 0)


def until_jobs_are(concurrency: GreenConcurrency, count: int) -> None:
    with gevent.Timeout(10):
        while concurrency.jobs != count:
            gevent.sleep(0.001)


def test_a_sleep_of_nothing_lets_timers_have_their_turn_each_time() -> None:
    concurrency = GreenConcurrency()
    turns = 0

    def timers() -> None:
        nonlocal turns
        while True:
            gevent.sleep(0.0001)
            turns += 1

    job = concurrency.spawn("timers", timers)
    gevent.sleep(0.001)
    seen = []
    for _ in range(20):
        seen.append(turns)
        concurrency.sleep(0)
    job.cancel()
    # A timer that is set while others are handled is due in the next round.
    assert all(later > earlier for earlier, later in zip(seen, seen[3:], strict=False)), seen
