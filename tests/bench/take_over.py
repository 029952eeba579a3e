"""How long buckets and VMs wait when workers drain, end or are killed: `python -m tests.bench.take_over`.

Real processes, as in the fleet's benchmark; gaps are those between the polls that the VMs' records tell of.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from app.bootstrap.owning import build_draining
from app.bootstrap.stores import Stores
from app.config import Settings
from app.ports.vm import VmKey
from app.services.instructing import Author
from tests.bench.fleet import FleetPlan, running_fleet

PATIENCE_S = 120.0
LOOK_EVERY_S = 0.05


class Watch:
    """Notes the longest time between two polls of any VM since `begin`."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._last: dict[VmKey, int] = {}
        self._longest_ms = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self._thread.start()

    def begin(self) -> None:
        self._longest_ms = 0

    def longest_s(self) -> float:
        """Gaps that are still open count as far as they have got."""
        now = time.time() * 1000
        return max(self._longest_ms, *(now - last for last in self._last.values())) / 1000

    def vms(self) -> int:
        return len(self._last)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            for name in self._stores.names:
                for key, raw in self._stores.states.load(name).items():
                    tried = json.loads(raw)["sample"]["tried_ms"]
                    if tried is not None:
                        self._longest_ms = max(self._longest_ms, tried - self._last.get(key, tried))
                        self._last[key] = tried


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait; how long it took, in seconds."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"never came: {what}")
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - begun


class Story:
    """Drain, undo, a clean end and a kill of three workers, one after the other."""

    def __init__(self, settings: Settings, children: dict[str, subprocess.Popen[bytes]]) -> None:
        self._settings, self._children = settings, children
        self._stores = Stores(settings)
        self._draining = build_draining(settings)
        self._watch = Watch(self._stores)
        self._period_s = settings.metrics.seconds_between_requests

    def tell(self, vms: int) -> None:
        try:
            until(
                lambda: self._watch.vms() == vms and self._is_shared(3), "all VMs are polled by three workers"
            )
            self._let("nothing happens", lambda: None, lambda: True)
            worker = self._draining.find("worker3")
            drain = Author("bench")
            self._let(
                "drain of worker3",
                lambda: self._draining.drain(worker, drain, is_forced=False),
                lambda: self._is_shared(2),
            )
            self._let("undone", lambda: self._draining.undo(worker), lambda: self._is_shared(3))
            self._let(
                "SIGTERM to worker3", lambda: self._end("worker3", signal.SIGTERM), lambda: self._is_shared(2)
            )
            self._let(
                "SIGKILL to worker2", lambda: self._end("worker2", signal.SIGKILL), lambda: self._is_shared(1)
            )
        finally:
            self._watch.stop()

    def _let(self, what: str, happen: Callable[[], object], holds: Callable[[], bool]) -> None:
        self._watch.begin()
        happen()
        took_s = until(holds, what)
        time.sleep(2 * self._period_s)
        gap_s = self._watch.longest_s()
        print(f"  {what:<20} all buckets held again after {took_s:5.1f} s, longest gap {gap_s:5.1f} s")

    def _end(self, name: str, number: int) -> None:
        self._children[name].send_signal(number)

    def _is_shared(self, workers: int) -> bool:
        """Whether all buckets are held, by so many live workers, in fair shares."""
        view = self._stores.leases.view()
        holders = [row.holder.agent_id for row in view.leases.values() if row.holder is not None]
        counts = [holders.count(agent) for agent in set(holders)]
        share = -(-len(view.leases) // workers)
        return len(holders) == len(view.leases) and len(counts) == workers and max(counts) <= share


def measure_take_over(plan: FleetPlan, ownership: dict[str, object]) -> None:
    """Start everything, tell the story, stop."""
    with running_fleet(plan, ownership=ownership) as fleet:
        print(f"{plan.vms} VMs, 3 workers, a poll each {plan.period_s:g} s, {ownership}")
        Story(fleet.settings, fleet.children).tell(plan.vms)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.take_over")
    parser.add_argument("--vms", type=int, default=100)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--lease", type=float, default=15.0, help="seconds; renewed 7.5 times")
    options = parser.parse_args()
    ownership: dict[str, object] = {
        "buckets": options.buckets,
        "leaseDurationSeconds": options.lease,
        "renewEverySeconds": options.lease / 7.5,
        "giveUpAfterSeconds": options.lease / 1.5,
    }
    measure_take_over(FleetPlan(options.vms, 3, options.period, 0, "steady=1"), ownership)


if __name__ == "__main__":
    main()
