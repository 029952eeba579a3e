"""A whole fleet on two real VMs under changing load: `VM_SOAK_SECONDS=3600 make soak-vm`.

The load comes from a seed (VM_SOAK_SEED). Exit status 0 only if nothing was stuck, no process and no load was
killed, nothing has grown, and both VMs are at their least again once the load is off.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.adapters.clock import SystemClock
from app.adapters.embedded_redis import find_redis_server
from app.adapters.image_build import build_image
from app.adapters.processes import GuardedLauncher
from app.adapters.redis_connection import RedisConnection
from app.adapters.xdg import cache_directory
from app.cli.demo import GRACE_S, log_to, tidy
from app.cli.demo_guests import GuestWatch
from app.cli.demo_run import DemoRun, StopRequest
from app.cli.demo_setup import DemoSetup, control_plane_specs
from app.cli.demo_vm_script import MIB, GuestFacts, LoadOrder
from app.cli.demo_vm_setup import VMS, describe_vms, need_qemu, prepare_vms, vms_of
from app.cli.image import images_directory
from app.errors import VmscalerError
from app.services.fleet_view import FleetView
from app.services.process_keeping import ProcessKeeper
from tests.chaos.watching import process_gauges
from tests.vm.soak_checks import Checks

if TYPE_CHECKING:
    from app.adapters.qemu_local import LocalVms

CALM_S = 200.0
"""At the end without load: the load average needs most of it to fall."""
GAUGES_EVERY_S = 10.0
LEAST_CPUS, LEAST_TOTAL = 1, 512 * MIB
MOST_HOG = 1000 * MIB
"""Half of a VM's maximum: a hog that is killed here was served too late."""


class ChangingLoad:
    """Loads from a seed, for each VM one after the other, with rests between."""

    def __init__(self, seed: int, until_s: float) -> None:
        self._random = random.Random(seed)
        self._until_s = until_s
        self._next: dict[str, float] = dict.fromkeys(VMS, 15.0)
        self.begun = 0

    def step(self, now_s: float, facts: Mapping[str, GuestFacts], is_ready: bool) -> Sequence[LoadOrder]:
        """See `demo_guests.Plan`."""
        orders: list[LoadOrder] = []
        for name, each in facts.items():
            if not is_ready or each.is_loaded or now_s < self._next[name] or now_s >= self._until_s:
                continue
            seconds = min(self._random.randint(25, 100), max(int(self._until_s - now_s), 1))
            kind = self._random.choice(("cpu", "memory", "both"))
            milli_cpu = 0 if kind == "memory" else self._random.randint(1, 8) * 500
            memory = 0 if kind == "cpu" else self._random.randint(200 * MIB, MOST_HOG)
            self._next[name] = now_s + seconds + self._random.randint(10, 60)
            orders.append(LoadOrder(name, milli_cpu, memory, seconds))
            self.begun += 1
        return orders


class Soak:
    """Checks at each look of the run; a `Companion`."""

    def __init__(self, setup: DemoSetup, vms: LocalVms, keeper: ProcessKeeper, load: ChangingLoad) -> None:
        self.checks = Checks()
        self.facts: dict[str, GuestFacts] = {}
        self._setup = setup
        self._vms = vms
        self._keeper = keeper
        self._load = load
        self._redis = RedisConnection(f"unix://{setup.redis_socket}")
        self._next_gauges_s = 0.0
        self.watch = GuestWatch({each.name: vms.guest(each) for each in vms.all()}, self._plan)

    def notes(self, view: FleetView | None, elapsed_s: float) -> Sequence[str]:
        """Check, and show what the guests say."""
        notes = self.watch.notes(view, elapsed_s)
        before = len(self.checks.problems)
        self.checks.take_fleet(elapsed_s, view, VMS)
        self.checks.take_guests(elapsed_s, self.facts, VMS)
        children = self._keeper.states()
        self.checks.take_children(children)
        for directory in self._vms.all():
            if not directory.is_running():
                self.checks.problems.append(f"the QEMU of {directory.name} has ended")
        if elapsed_s >= self._next_gauges_s:
            self._next_gauges_s = elapsed_s + GAUGES_EVERY_S
            self._take_gauges(elapsed_s, {child.name: child.pid for child in children})
        return [*notes, *(f"PROBLEM: {each}" for each in self.checks.problems[before:])]

    def _plan(self, now_s: float, facts: Mapping[str, GuestFacts], is_ready: bool) -> Sequence[LoadOrder]:
        self.facts = dict(facts)
        return self._load.step(now_s, facts, is_ready)

    def _take_gauges(self, now_s: float, pids: Mapping[str, int | None]) -> None:
        for name, pid in pids.items():
            for what, value in ({} if pid is None else process_gauges(pid)).items():
                self.checks.take_gauge(now_s, name, what, value)
        for directory in self._vms.all():
            pid = directory.pid()
            files = {} if pid is None else process_gauges(pid)
            if files:
                # A QEMU's memory and threads go with what its guest has.
                self.checks.take_gauge(now_s, directory.name, "files", files["files"])
        try:
            self.checks.take_gauge(now_s, "redis", "keys", float(int(self._redis.execute("DBSIZE"))))
        except VmscalerError:
            return


def run(seconds: float, seed: int) -> int:
    """One soak; the exit status."""
    need_qemu()
    request = StopRequest()
    image = build_image(images_directory(), cache_directory() / "packages")
    setup = prepare_vms(os.environ)
    log_to(setup.logs / "demo.log")
    launcher = GuardedLauncher(setup.directory)
    vms = vms_of(setup, image)
    keeper = ProcessKeeper(launcher, SystemClock(), sleep=time.sleep)
    status = 1
    try:
        directories = [vms.create(vm) for vm in describe_vms(image)]
        for directory in directories:
            vms.start(directory)
            if (pid := directory.pid()) is not None:
                launcher.guard(pid)
        for directory in directories:
            vms.wait_up(directory)
        load = ChangingLoad(seed, max(seconds - CALM_S, 30.0))
        soak = Soak(setup, vms, keeper, load)
        server, specs = find_redis_server(), control_plane_specs(setup)
        demo = DemoRun(setup, server, keeper, request, specs=specs, limit_s=seconds, companion=soak)
        soak.watch.start()
        try:
            demo.watch()
        finally:
            soak.watch.stop()
        status = report(soak, demo, load, setup)
        keeper.stop(GRACE_S)
    finally:
        keeper.kill()
        for directory in vms.all():
            vms.stop(directory)
        tidy(setup, keep_logs=status != 0)
        launcher.close()
    return status


def report(soak: Soak, demo: DemoRun, load: ChangingLoad, setup: DemoSetup) -> int:
    """Print what came of it; the exit status."""
    completed, problems = demo.tally.completed, soak.checks.problems
    figures = soak.checks.judge_growth(0.0, demo.elapsed_s)
    for name, each in soak.facts.items():
        if each.cpus != LEAST_CPUS or each.total > LEAST_TOTAL:
            problems.append(
                f"{name} is not at its least in the end: {each.cpus} CPUs, {each.total // MIB} MiB"
            )
    for kind, count in completed.items():
        if not count:
            problems.append(f"no {kind} were completed")
    lines = [f"soak-vm: {demo.elapsed_s:.0f} s, {load.begun} loads; {completed}"]
    lines += [f"  {name}: {text}" for name, text in figures.items()]
    good = "nothing stuck, nothing killed" + ("" if "growth" in figures else ", nothing grown")
    lines += [f"  PROBLEM: {problem}" for problem in problems] or [f"  {good}"]
    if problems:
        lines.append(f"  logs: {setup.logs}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(run(float(os.environ.get("VM_SOAK_SECONDS", "3600")), int(os.environ.get("VM_SOAK_SEED", "1"))))
