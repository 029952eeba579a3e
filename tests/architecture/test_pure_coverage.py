"""What is pure must be right: the unit tests of these packages take every branch of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("package", ["cluster", "metering", "protocols"])
def test_every_branch_of_a_pure_package_is_taken_by_its_unit_tests(package: str, tmp_path: Path) -> None:
    coverage = [sys.executable, "-m", "coverage"]
    data = f"--data-file={tmp_path / 'coverage'}"
    run = [*coverage, "run", data, "--branch", f"--source=app/{package}", "-m", "pytest", "-q", "-p"]
    tests = subprocess.run(
        [*run, "no:cacheprovider", f"tests/unit/{package}"], cwd=ROOT, capture_output=True, text=True
    )
    assert tests.returncode == 0, tests.stdout
    report = [*coverage, "report", data, "--show-missing", "--fail-under=100"]
    shown = subprocess.run(report, cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout
