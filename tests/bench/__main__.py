"""Runs the benchmarks and prints two tables; `--fleet-only` and `--micro-only` leave one out."""

from __future__ import annotations

import argparse

from tests.bench.fleet import FleetPlan, measure_fleet
from tests.bench.operations import measure_operations


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--vms", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--mix", default="", help="of the fleet's load profiles; default: the fleet's own")
    parser.add_argument("--fleet-only", action="store_true")
    parser.add_argument("--micro-only", action="store_true")
    options = parser.parse_args()
    if not options.fleet_only:
        measure_operations()
    if not options.micro_only:
        plan = FleetPlan(options.vms, options.workers, options.period, options.seconds, options.mix)
        measure_fleet(plan)


if __name__ == "__main__":
    main()
