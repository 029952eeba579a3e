"""The chaos test, short and small; the long ones are `make chaos`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "CHAOS_SECONDS": "12",
    "CHAOS_SEED": "218",
    "CHAOS_VMS": "40",
    "CHAOS_WORKERS": "3",
    "CHAOS_BUCKETS": "8",
    "CHAOS_PERIOD": "1",
    "CHAOS_LEASE": "3",
    "CHAOS_QUIET": "5",
}


@pytest.mark.timeout(300)
def test_a_short_run_of_faults_breaks_no_rule() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHAOS_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos"],
        env=environment | SETTINGS,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violations" in done.stdout
