"""Up and down, again and again, on one real VM under load: `python -m tests.vm.cycles [--cycles 20]`.

Driven through the platform's port, as the workers do. Each cycle goes to the VM's maximum and back to its
least, and counts only when the guest's own numbers say so. Exit status 1 if one was not observed, if the
load ended, or if the guest's kernel killed anything.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from dataclasses import dataclass

from app.core.resources import Resources
from app.errors import PeerError
from tests.vm.rig import ANSWER_LIMIT_S, LEAST, MIB, MOST, SLOT, Rig, rig

CPU_THREADS = 4
HOG_MIB = 200
LIMIT_S = 600.0
"""For one way; a machine that is busy with other things takes minutes."""
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One way: seconds until the platform observed it, sizes asked for, what the guest says at its end."""

    seconds: float
    asked: int
    cpus: int
    total: int
    available: int


def go(vm: Rig, target: Resources) -> Leg:
    """Ask until it is observed. Raises AssertionError: it never was."""
    begun, asked, observed = time.monotonic(), 0, None
    while time.monotonic() - begun < LIMIT_S:
        asked += 1
        with contextlib.suppress(PeerError):
            vm.apply("a", target)
        with contextlib.suppress(PeerError):
            observed = vm.observed("a")
        if observed == target:
            seconds = time.monotonic() - begun
            memory = vm.memory("a")
            cpus = vm.guest("a").cpus(timeout_s=ANSWER_LIMIT_S).online
            return Leg(seconds, asked, cpus, memory.total, memory.available)
        time.sleep(_RETRY_S)
    raise AssertionError(f"{observed} was observed after {LIMIT_S:g} s, not {target}")


def check(vm: Rig, up: Leg, down: Leg) -> str:
    """What is wrong after a cycle; empty if nothing is."""
    if vm.load_end("a") is not None:
        return f"the load has {vm.load_end('a')}"
    if vm.memory("a").oom_kills:
        return "the guest's kernel has killed a process"
    if (up.cpus, down.cpus) != (MOST.cpu // 1000, LEAST.cpu // 1000):
        return f"nproc was {up.cpus}, then {down.cpus}"
    # The kernel keeps a share of its first memory for itself.
    if up.total < (MOST.mem - 2) * SLOT or down.total > LEAST.mem * SLOT:
        return f"MemTotal was {up.total // MIB}, then {down.total // MIB} MiB"
    return ""


def main() -> int:
    """Run it and print the table; the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=20)
    cycles = parser.parse_args().cycles
    say(f"{CPU_THREADS} busy threads and a hog of {HOG_MIB} MiB in the guest, all the time\n")
    say("| cycle | up | asked | nproc | MemTotal | down | asked | nproc | MemTotal | MemAvailable |")
    say("|---|---|---|---|---|---|---|---|---|---|")
    form = logging.Formatter("  %(message)s: %(reason)s", defaults={"reason": ""})
    handler = logging.StreamHandler()
    handler.setFormatter(form)
    logging.getLogger("app").addHandler(handler)
    ups, downs = [], []
    with rig("a") as vm:
        vm.load("a", cpu=CPU_THREADS, mib=HOG_MIB, rate_mib=50, seconds=86_400)
        time.sleep(10)
        for number in range(1, cycles + 1):
            up, down = go(vm, MOST), go(vm, LEAST)
            say(f"| {number} | {_cells(up)} | {_cells(down)} | {down.available // MIB} MiB |")
            if problem := check(vm, up, down):
                say(f"\ncycle {number}: {problem}")
                return 1
            ups.append(up.seconds)
            downs.append(down.seconds)
    say(f"\n{cycles} cycles, all observed; up {_spread(ups)}, down {_spread(downs)}")
    return 0


def say(text: str) -> None:
    """Print it at once, for whoever reads along."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cells(leg: Leg) -> str:
    return f"{leg.seconds:.1f} s | {leg.asked} | {leg.cpus} | {leg.total // MIB} MiB"


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{ordered[len(ordered) // 2]:.1f} s in the middle, {ordered[-1]:.1f} s at most"


if __name__ == "__main__":
    sys.exit(main())
