"""Runs the benchmarks and prints their tables; `--…-only` runs one of them alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from tests.bench.all_on import measure_all_on
from tests.bench.fleet import FleetPlan, measure_fleet
from tests.bench.metrics import measure_metrics
from tests.bench.monitors import measure_monitors
from tests.bench.operations import measure_operations
from tests.bench.upscales import measure_upscales

ONLY = ("micro", "monitors", "upscales", "metrics", "all-on", "fleet")
"""The benchmarks, in their order."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--vms", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--mix", default="", help="of the fleet's load profiles; default: the fleet's own")
    for name in ONLY:
        parser.add_argument(f"--{name}-only", action="store_true")
    options = parser.parse_args()
    plan = FleetPlan(options.vms, options.workers, options.period, options.seconds, options.mix)
    benches: dict[str, Callable[[], None]] = {
        "micro": measure_operations,
        "monitors": measure_monitors,
        "upscales": measure_upscales,
        "metrics": measure_metrics,
        "all-on": lambda: measure_all_on(plan),
        "fleet": lambda: measure_fleet(plan),
    }
    wanted = [name for name in ONLY if getattr(options, f"{name.replace('-', '_')}_only")]
    for name in wanted or ONLY:
        benches[name]()


if __name__ == "__main__":
    main()
