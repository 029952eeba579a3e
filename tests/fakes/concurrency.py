"""Jobs in virtual time: nothing runs but in `run` and `advance`, in an order that is always the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenlet import getcurrent, greenlet

from tests.fakes.clock import FakeClock


class _Sleeper:
    """A job that waits: for a signal, for a time, or for another job's end."""

    def __init__(self, job: greenlet, until: float | None) -> None:
        self.job = job
        self.until = until
        self.is_awake = False


class VirtualSignal:
    """A `Signal`; waiting outside of a job is an error of the test."""

    def __init__(self, jobs: VirtualConcurrency) -> None:
        self._jobs = jobs
        self._is_set = False
        self._sleepers: list[_Sleeper] = []

    def set(self) -> None:
        self._is_set = True
        for sleeper in self._sleepers:
            self._jobs.wake(sleeper)
        self._sleepers.clear()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        if not self._is_set:
            self._sleepers.append(self._jobs.pause(timeout_s))
            self._jobs.switch()
        return self._is_set


class VirtualJob:
    """A `Job`; joining it outside of a job runs what can be run now."""

    def __init__(self, name: str, jobs: VirtualConcurrency) -> None:
        self.name = name
        self.is_over = False
        self._jobs = jobs

    def join(self, timeout_s: float | None = None) -> bool:
        if self._jobs.is_in_job():
            rest_s = 1_000.0 if timeout_s is None else timeout_s
            while not self.is_over and rest_s > 0:
                self._jobs.sleep(0.001)
                rest_s -= 0.001
        else:
            self._jobs.run()
        return self.is_over

    def cancel(self) -> None:
        """Not needed by what is tested here."""


class VirtualConcurrency:
    """A `Concurrency` of one clock; `alive` are the jobs that have not ended."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._main = getcurrent()
        self._ready: deque[greenlet] = deque()
        self._sleeping: list[_Sleeper] = []
        self.alive: set[VirtualJob] = set()

    def spawn(self, name: str, run: Callable[[], None]) -> VirtualJob:
        job = VirtualJob(name, self)

        def body() -> None:
            try:
                run()
            finally:
                job.is_over = True
                self.alive.discard(job)

        self.alive.add(job)
        self._ready.append(greenlet(body, self._main))
        return job

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self)

    def sleep(self, seconds: float) -> None:
        self.pause(seconds)
        self.switch()

    def is_in_job(self) -> bool:
        return getcurrent() is not self._main

    # --- what tests call ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all jobs until each waits or has ended."""
        while self._ready:
            job = self._ready.popleft()
            job.parent = getcurrent()
            job.switch()

    def advance(self, seconds: float) -> None:
        """Let that much time pass, step by step from one wake-up to the next."""
        end = self._clock.monotonic() + seconds
        self.run()
        while True:
            due = [s for s in self._sleeping if s.until is not None and s.until <= end + 1e-9]
            if not due:
                break
            first = min(due, key=lambda s: s.until or 0.0)
            self._clock.advance(max((first.until or 0.0) - self._clock.monotonic(), 0.0))
            self.wake(first)
            self.run()
        self._clock.advance(max(end - self._clock.monotonic(), 0.0))

    # --- what signals call --------------------------------------------------------------------------------

    def pause(self, timeout_s: float | None) -> _Sleeper:
        job = getcurrent()
        assert job is not self._main, "only a job may wait"
        sleeper = _Sleeper(job, None if timeout_s is None else self._clock.monotonic() + timeout_s)
        self._sleeping.append(sleeper)
        return sleeper

    def wake(self, sleeper: _Sleeper) -> None:
        if not sleeper.is_awake:
            sleeper.is_awake = True
            self._sleeping.remove(sleeper)
            self._ready.append(sleeper.job)

    def switch(self) -> None:
        parent = getcurrent().parent
        assert parent is not None
        parent.switch()
