"""One run: everything is started, hurt, left in peace, looked at, stopped and judged."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import requests

from app.adapters.port_reservation import ReservedPort
from app.adapters.processes import GuardedLauncher
from app.cluster.ring import BucketSet
from tests.chaos.checker import check
from tests.chaos.ending import await_whole, judge_ends
from tests.chaos.evidence import (
    Counters,
    Evidence,
    FaultDone,
    Gauge,
    LeaseChange,
    Life,
    Limits,
    Pushed,
    Violation,
)
from tests.chaos.notebook import Notebook
from tests.chaos.options import Options
from tests.chaos.pushing import Pushers
from tests.chaos.reading import missing_lines, read_fleet, read_lines, read_scheduler, read_stats, read_vms
from tests.chaos.report import say, say_schedule, say_table
from tests.chaos.schedule import make_schedule
from tests.chaos.setup import Place, prepare
from tests.chaos.spans import Span, merged
from tests.chaos.watching import (
    BEAT_S,
    GAUGES_EVERY_S,
    LEASES_EVERY_S,
    GaugeWatch,
    Heartbeat,
    LeaseWatch,
    Repeating,
)
from tests.chaos.world import World
from tests.tcp_proxy import ProxyLoop, TcpProxy

STEP_S = 0.02
WARM_UP_WITHIN_S = 120.0
REST_PERIODS = 2
"""After all buckets are held: everything has been polled once or twice before the first fault."""


class NotUp(Exception):
    """The fleet did not come up; there was nothing to test."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM: all is stopped, nothing is judged."""


def run(options: Options) -> int:
    """A whole run; the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    port = ReservedPort()
    place = Place(directory, options, port.number)
    try:
        count = _run_in(place)
    except NotUp as err:
        say(f"{err}; they are kept: {place.logs}")
        return 1
    except Interrupted:
        say("interrupted: nothing was judged")
        shutil.rmtree(directory, ignore_errors=True)
        return 130
    finally:
        port.close()
    if count or options.keep:
        say(f"journals and logs are kept: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if count else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _run_in(place: Place) -> int:
    """The number of violations."""
    options = place.options
    schedule = make_schedule(options.seconds, options.seed, options.workers)
    say_schedule(options, schedule, place.directory)
    loop = ProxyLoop()
    proxies = {
        f"worker{number}": TcpProxy(loop, place.redis_socket) for number in range(1, options.workers + 1)
    }
    prepare(place, {name: proxy.port for name, proxy in proxies.items()})
    launcher = GuardedLauncher(place.directory / "guarded")
    notebook = Notebook(place.harness_journal)
    world = World(place, launcher, notebook, proxies, say)
    course = _Course(place, world, notebook)
    killed: list[str] = []
    try:
        course.warm_up()
        course.run_faults(schedule)
        course.rest()
        killed = course.stop_workers()
    finally:
        course.stop_watching()
        killed += world.stop()
        launcher.close()
        for proxy in proxies.values():
            proxy.close()
        loop.close()
        notebook.close()
    evidence = gather(place, notebook, course)
    findings = check(evidence)
    findings.violations += course.violations
    findings.violations += judge_ends({child.name: child.crashes for child in world.workers.values()})
    more = {
        "processes started again": str(sum(child.restarts for child in world.workers.values())),
        "workers that ended by themselves": _crashes(world),
        "had to be killed at the end": ", ".join(killed) or "none",
    }
    say_table(options, evidence, findings, more)
    return len(findings.violations)


def _crashes(world: World) -> str:
    found = [f"{child.name}: {end}" for child in world.workers.values() for end in child.crashes]
    return "; ".join(found) or "none"


class _Course:
    """The run's phases, and the watches beside them."""

    def __init__(self, place: Place, world: World, notebook: Notebook) -> None:
        self._place = place
        self._world = world
        self._watches: list[Repeating] = []
        self._leases: LeaseWatch | None = None
        self._notebook = notebook
        self.vms: Mapping[str, Any] = {}
        self.begin = self.end = 0.0
        self.violations: list[Violation] = []
        self.queued: frozenset[tuple[str, int]] = frozenset()
        self._pushers: Pushers | None = None

    def warm_up(self) -> None:
        """Start, and wait until every bucket is held by as many workers as there are.

        Raises:
            NotUp: that did not come; the logs say why.
        """
        say("starting")
        heartbeat = Heartbeat(self._notebook)
        self._watches.append(Repeating("heartbeat", heartbeat.beat, BEAT_S))
        self._world.start()
        leases = self._leases = LeaseWatch(self._place, self._notebook)
        gauges = GaugeWatch(self._place, self._notebook, self._world.pids)
        self._watches.append(Repeating("leases", leases.look, LEASES_EVERY_S))
        self._watches.append(Repeating("gauges", gauges.look, GAUGES_EVERY_S))
        self.vms = read_vms(self._list_vms(), BucketSet(self._place.options.buckets))
        self._world.start_rest()
        deadline = time.monotonic() + WARM_UP_WITHIN_S
        while not self._is_whole(leases):
            if time.monotonic() > deadline:
                raise NotUp(f"the fleet did not come up within {WARM_UP_WITHIN_S:g} s; its logs say why")
            self._pass(0.2)
        self._pushers = Pushers(self._place, self._notebook, sorted(self.vms), lambda: leases.addresses)
        self._pass(REST_PERIODS * self._place.options.period_s)

    def run_faults(self, schedule: tuple[Any, ...]) -> None:
        """The schedule, to its end."""
        self.begin = time.monotonic()
        for fault in schedule:
            self._pass(self.begin + fault.at_s - time.monotonic())
            say(f"{time.monotonic() - self.begin:7.1f} s  {fault.text()[11:]}")
            self._world.hurt(fault)
        self._pass(self.begin + self._place.options.seconds - time.monotonic())

    def rest(self) -> None:
        """No fault any more; then the fleet must be whole."""
        say(f"{time.monotonic() - self.begin:7.1f} s  quiet")
        self._pass(self._place.options.quiet_s / 2)
        if self._pushers is not None:
            self._pushers.stop()
        self._pass(self._place.options.quiet_s / 2)
        leases = self._leases
        if leases is not None:
            self.violations += await_whole(self._place, lambda: leases.held, self._world.tick)
        self.end = time.monotonic()

    def stop_workers(self) -> list[str]:
        """End the workers, and see which stats are left to nobody; names of those that had to be killed."""
        killed = self._world.stop_workers()
        if self._leases is not None:
            self.queued = self._leases.queued_stats()
        return killed

    def stop_watching(self) -> None:
        """End the watches and the pushers."""
        if self._pushers is not None:
            self._pushers.stop()
        for watch in reversed(self._watches):
            watch.stop()

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self._world.tick()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(STEP_S, left))

    def _is_whole(self, leases: LeaseWatch) -> bool:
        options = self._place.options
        holders = [holder for holder in leases.held.values() if holder]
        return len(holders) == options.buckets and len(set(holders)) == options.workers

    def _list_vms(self) -> Any:
        """The fleet's VMs as they are before anybody can have asked for a size."""
        deadline = time.monotonic() + WARM_UP_WITHIN_S
        while True:
            try:
                answer = requests.get(f"http://127.0.0.1:{self._place.control_port}/v1/vms", timeout=30)
                return answer.json()["vms"]
            except requests.RequestException:
                if time.monotonic() > deadline:
                    raise
                self._pass(0.1)


def gather(place: Place, notebook: Notebook, course: _Course) -> Evidence:
    """All journals of the run."""
    options = place.options
    fleet, scheduler = list(read_lines(place.fleet_journal)), list(read_lines(place.scheduler_journal))
    effects, polls = read_fleet(fleet, course.vms)
    stats = list(read_lines(place.stats_journal))
    notes = notebook.all()
    spans = [note for note in notes if isinstance(note, Span)]
    return Evidence(
        limits=Limits(options.lease_s, options.period_s, options.buckets),
        begin=course.begin,
        end=course.end,
        vms=course.vms,
        effects=tuple(effects + read_scheduler(scheduler)),
        polls=tuple(polls),
        leases=tuple(note for note in notes if isinstance(note, LeaseChange)),
        faults=tuple(note for note in notes if isinstance(note, FaultDone)),
        lives=tuple(note for note in notes if isinstance(note, Life)),
        left_out=merged(span for span in spans if span.end > course.begin and span.begin < course.end),
        outages=tuple(span for span in spans if span.why == "Redis was down"),
        gauges=tuple(note for note in notes if isinstance(note, Gauge)),
        pushed=tuple(note for note in notes if isinstance(note, Pushed)),
        stats=tuple(read_stats(stats)),
        counters=tuple(note for note in notes if isinstance(note, Counters)),
        still_queued=course.queued,
        gaps=(
            *missing_lines("fleet", fleet),
            *missing_lines("scheduler", scheduler),
            *missing_lines("stats", stats, of="agent_id"),
        ),
    )
