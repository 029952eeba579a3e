"""The metrics page of a worker with many VMs: what it costs, and whether anything else waits for it.

Real runners, polling and HTTP server in this process, peers made up: what others do is left out, so that
ratios are worse than those of a whole worker. Times without a switch are of CPU: on a busy machine others
would be measured else. Python's collector is off: its pauses come wherever something is made, page or not.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import gevent
import greenlet

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.core.resources import resources
from app.ports.agent_metrics import AGENT_FAMILIES
from app.ports.own_metrics import POLLS, WORKER_FAMILIES
from app.ports.vm import Address, MonitorPolicy
from app.protocols.metric_families import Counter, Histogram
from app.services.metrics_page import MetricsPage
from app.services.polling import Polling
from app.web.metrics import add_metrics_page
from app.web.server import WebServer
from app.web.worker import WorkerApplication
from tests.bench.operations import a_page
from tests.service_builders import BUCKET, a_virtual_machine, some_settings
from tests.worker_harness import Worker

VMS = 2_000
GROUPS = 16
PERIOD_S = 5.0
ROUNDS = 3
SCRAPE_EVERY_S = 15.0
"""What Prometheus does unless told otherwise, for the share of CPU."""

SCRAPER = """
import sys, time, urllib.request
while True:
    began = time.monotonic()
    size = len(urllib.request.urlopen(sys.argv[1], timeout=30).read())
    print(time.monotonic() - began, size, flush=True)
    time.sleep(1)
"""


class _Pages:
    """Each VM's page at once, the same."""

    def __init__(self) -> None:
        self._page = a_page(10_000)

    def fetch(self, address: Address, *, timeout_s: float) -> bytes:
        return self._page

    def forget(self, address: Address) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class _Bench:
    """Runners in groups, polled group by group, and their page."""

    def __init__(self) -> None:
        vms = [
            a_virtual_machine(
                name=f"db-{number}",
                uid=f"uid-{number}",
                monitor=MonitorPolicy.NONE,
                monitor_address=None,
                endpoint_id=f"ep-{number}",
                metrics=Address("127.0.0.1", number),
                use=resources(750, 3),
                observed=resources(750, 3),
            )
            for number in range(1, VMS + 1)
        ]
        self.worker = Worker(*vms)
        clock, concurrency = SystemClock(), GreenConcurrency()
        supervisor = self.worker.supervisor
        self.polling = Polling(
            some_settings(),
            clock,
            concurrency,
            _Pages(),
            commit=lambda runners: supervisor.commit(BUCKET, runners),
            dispatch=self.worker.scaling.dispatch,
            crashed=supervisor.crashed,
        )
        self.runners = supervisor.runners()
        families = (*AGENT_FAMILIES, *WORKER_FAMILIES)
        self.page = MetricsPage(families, clock, concurrency, lambda: None, supervisor.runners)
        application = WorkerApplication()
        add_metrics_page(application, self.page)
        self.server = WebServer(application, "127.0.0.1", 0)
        self.server.start()

    def poll(self, group: int) -> None:
        """One tick of a group."""
        self.polling.poll(self.runners[group::GROUPS], self.worker.guards)

    def poll_all(self) -> float:
        """Each VM once, with what follows: the scheduler is told of each; CPU seconds."""
        gevent.sleep(PERIOD_S)
        gc.collect()
        before = time.process_time()
        for group in range(GROUPS):
            self.poll(group)
        gevent.sleep(0.2)
        return time.process_time() - before

    def change(self, count: int) -> None:
        """So many VMs get another size."""
        for runner in self.runners[:count]:
            cpu = 1_000 if runner.vm.max.cpu == 4_000 else 4_000
            runner.vm = replace(runner.vm, max=resources(cpu, 16))

    def ticks(self, seconds: float) -> list[float]:
        """Poll in the rhythm of a worker; how late each tick began, seconds."""
        late: list[float] = []
        begun, number = time.monotonic(), 0
        while (due := begun + number * PERIOD_S / GROUPS) < begun + seconds:
            gevent.sleep(max(due - time.monotonic(), 0))
            gevent.spawn(self._poll_late, number % GROUPS, due, late)
            number += 1
        return late

    def _poll_late(self, group: int, due: float, late: list[float]) -> None:
        late.append(time.monotonic() - due)
        self.poll(group)


@contextmanager
def _scraped(port: int, answers: list[tuple[float, int]]) -> Iterator[None]:
    argv = [sys.executable, "-c", SCRAPER, f"http://127.0.0.1:{port}/metrics"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            process.terminate()
            lines = process.communicate()[0].splitlines()
            answers += [(float(line.split()[0]), int(line.split()[1])) for line in lines]


@contextmanager
def _longest_stretch(of: Callable[[Any], bool], found: list[float]) -> Iterator[None]:
    """Notes how long greenlets of a kind ran without a switch, seconds."""
    since = [time.thread_time()]

    def switched(event: str, args: Any) -> None:
        now = time.thread_time()
        if of(args[0]):
            found.append(now - since[0])
        since[0] = now

    greenlet.settrace(switched)
    try:
        yield
    finally:
        greenlet.settrace(None)


@contextmanager
def _calls_counted(calls: list[str]) -> Iterator[None]:
    """Notes which families are counted in meanwhile."""
    add, observe = Counter.add, Histogram.observe

    def adding(self: Counter, *values: str, by: float = 1) -> None:
        calls.append(self.name)
        add(self, *values, by=by)

    def observing(self: Histogram, value: float, *values: str) -> None:
        calls.append(self.name)
        observe(self, value, *values)

    Counter.add, Histogram.observe = adding, observing  # type: ignore[method-assign]
    try:
        yield
    finally:
        Counter.add, Histogram.observe = add, observe  # type: ignore[method-assign]


def _page_cpu(bench: _Bench, changed: int) -> float:
    costs = []
    for _ in range(ROUNDS + 1):
        bench.change(changed)
        before = time.process_time()
        bench.page.text()
        costs.append(time.process_time() - before)
    return min(costs[1:])


def measure_metrics() -> None:
    """Print the figures, a line each."""
    bench = _Bench()
    bench.poll_all()
    bench.poll_all()
    gc.disable()
    first, still, changing = _page_cpu(bench, VMS), _page_cpu(bench, 0), _page_cpu(bench, VMS // 20)
    print(f"metrics page of {VMS} VMs, {bench.page.text().count(bytes([10]))} lines")
    print(f"CPU of a page        all changed {first * 1e3:6.1f} ms")
    print(f"                     5 % changed {changing * 1e3:6.1f} ms, none {still * 1e3:6.1f} ms")
    _print_shares(bench, changing)
    _print_waits(bench)
    bench.server.stop()
    gc.enable()


def _print_shares(bench: _Bench, page_s: float) -> None:
    """What of a poll is counting, and the page's share.

    Counting is reckoned from its calls: it is less than two rounds of polls differ by (`all_on.py` compares
    whole workers).
    """
    calls: list[str] = []
    with _calls_counted(calls):
        bench.poll_all()
    tries = 100_000
    call_us = min(timeit.repeat(lambda: POLLS.add(), number=tries)) / tries * 1e6
    poll_us = min(bench.poll_all() for _ in range(ROUNDS)) / VMS * 1e6
    counted, page_us = len(calls) / VMS * call_us, page_s * PERIOD_S / SCRAPE_EVERY_S / VMS * 1e6
    more = (counted + page_us) / poll_us
    print(
        f"CPU of a VM and poll {poll_us:.0f} us, of it {len(calls) / VMS:.1f} counts {counted:.1f} us;"
        f" page {page_us:.1f} us: {more:.1%}"
    )


def _print_waits(bench: _Bench) -> None:
    """Ticks alone and ticks while scraped each second, in turns."""
    late: dict[bool, list[float]] = {False: [], True: []}
    answers: list[tuple[float, int]] = []
    stretches: list[float] = []
    for _ in range(ROUNDS):
        late[False] += bench.ticks(2 * PERIOD_S)
        with _scraped(bench.server.port, answers), _longest_stretch(_is_request, stretches):
            late[True] += bench.ticks(2 * PERIOD_S)
    times = [answer[0] for answer in answers]
    print(f"time of a scrape     median {median(times):.3f} s, longest {max(times):.3f} s, of {len(times)}")
    ordered = sorted(stretches)
    part = ordered[int(len(ordered) * 0.99)]
    print(f"CPU without a switch 99 % {part * 1e3:.1f} ms, longest {ordered[-1] * 1e3:.1f} ms")
    for is_scraped, name in ((False, "alone"), (True, "scraped")):
        values = sorted(late[is_scraped])
        p95 = values[int(len(values) * 0.95)]
        print(f"lateness of ticks    {name:<8} median {median(values) * 1e3:.2f} ms, 95 % {p95 * 1e3:.2f} ms")


def _is_request(each: Any) -> bool:
    """Whether a greenlet answers HTTP requests."""
    return "handle" in str(getattr(each, "_run", ""))


if __name__ == "__main__":
    measure_metrics()
