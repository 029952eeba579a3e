"""The pure part of ownership is small and must be right: its unit tests take every branch of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_branch_of_the_cluster_package_is_taken_by_its_unit_tests(tmp_path: Path) -> None:
    coverage = [sys.executable, "-m", "coverage"]
    data = f"--data-file={tmp_path / 'coverage'}"
    run = [*coverage, "run", data, "--branch", "--source=app/cluster", "-m", "pytest", "-q", "-p"]
    tests = subprocess.run(
        [*run, "no:cacheprovider", "tests/unit/cluster"], cwd=ROOT, capture_output=True, text=True
    )
    assert tests.returncode == 0, tests.stdout
    report = [*coverage, "report", data, "--show-missing", "--fail-under=100"]
    shown = subprocess.run(report, cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout
