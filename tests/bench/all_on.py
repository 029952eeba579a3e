"""What operations cost a worker: the same fleet three times at once: all of it off, on, on with traces.

On: counting and the series of each VM, a scrape every 15 s, billing, scaling events in batches and to a
webhook, state dumps, logs as JSON. The fleets share the machine at the same time, so that whatever else it
does meets all of them.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from app.bootstrap.stores import Stores
from tests.bench.fleet import FleetPlan, RunningFleet, counters_of, cpu_s, running_fleet
from tests.fakes.event_server import EventServer, Request, event_server

SCRAPE_EVERY_S = 15.0
WARM_UP_S = 40.0


class _Sink(EventServer):
    """Takes everything and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def answer(self, request: Request) -> tuple[int, bytes]:
        self.taken += 1
        return 200, b""


@dataclass(frozen=True)
class _Spent:
    polls: int
    scalings: int
    worker_s: float

    @property
    def poll_us(self) -> float:
        return self.worker_s / max(self.polls, 1) * 1e6


def measure_all_on(plan: FleetPlan) -> None:
    """Start the fleets, let them settle, measure, print, stop."""
    plan = replace(plan, workers=1)
    plans = {"off": replace(plan, celery=("-m", "tests.bench.uncounted")), "on": plan, "on, traces": plan}
    with ExitStack() as stack:
        sink = stack.enter_context(event_server(_Sink()))
        secret = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "secret"
        secret.write_text("a webhook's secret of no importance\n")
        sections = _sections(sink.url, secret)
        fleets = {
            name: stack.enter_context(running_fleet(each, **sections[name])) for name, each in plans.items()
        }
        over = threading.Event()
        stack.callback(over.set)
        for name in ("on", "on, traces"):
            threading.Thread(target=_scrape, args=(fleets[name], over), daemon=True).start()
        time.sleep(WARM_UP_S)
        taken = sink.taken
        spent = _measure(fleets, plan.seconds)
        print(f"three times {plan.vms} VMs and a worker, a poll each {plan.period_s:g} s, {plan.seconds:g} s")
        print(f"deliveries to sinks and webhooks, batches of traces: {sink.taken - taken}")
    for name, each in spent.items():
        more = each.poll_us / spent["off"].poll_us - 1
        print(
            f"  {name:<11} {each.poll_us:6.0f} us of CPU a VM and poll {more:+6.1%};"
            f" {each.polls} polls, {each.scalings} scaling tasks"
        )


def _sections(url: str, secret: Path) -> dict[str, dict[str, object]]:
    off: dict[str, object] = {"prometheus": {"perVm": False}}
    webhook = {"name": "chat", "url": f"{url}/hook", "secretFile": str(secret)}
    on: dict[str, object] = {
        "billing": {"url": url},
        "scalingEvents": {"http": {"url": f"{url}/scaling"}, "webhooks": [webhook]},
        "dumpState": {"port": 0},
        "logging": {"format": "json"},
    }
    return {"off": off, "on": on, "on, traces": {**on, "tracing": {"enabled": True, "endpoint": url}}}


def _scrape(fleet: RunningFleet, over: threading.Event) -> None:
    stores = Stores(fleet.settings)
    while not over.wait(SCRAPE_EVERY_S):
        for agent in stores.agents.list():
            facts = json.loads(agent.facts)
            if facts["kind"] == "worker":
                url = f"http://{facts['address']}/metrics"
                urllib.request.urlopen(url, timeout=30).read()


def _measure(fleets: dict[str, RunningFleet], seconds: float) -> dict[str, _Spent]:
    before = {name: _spent(fleet) for name, fleet in fleets.items()}
    time.sleep(seconds)
    return {
        name: _Spent(
            (after := _spent(fleet)).polls - before[name].polls,
            after.scalings - before[name].scalings,
            after.worker_s - before[name].worker_s,
        )
        for name, fleet in fleets.items()
    }


def _spent(fleet: RunningFleet) -> _Spent:
    polls, scalings = counters_of(Stores(fleet.settings))
    return _Spent(polls, scalings, cpu_s({"worker": fleet.children["worker1"].pid})["worker"])
