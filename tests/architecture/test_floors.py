"""The floors hold: the contracts of `.importlinter`, checked in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_all_contracts_of_the_floors_are_kept() -> None:
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_console_script_starts_the_guest_without_the_command_line() -> None:
    script = """
import sys
from app.main import main
sys.argv = ["vmscaler", "guest", "--help"]
try:
    main()
except SystemExit:
    foreign = ("click", "pydantic", "redis", "celery", "app.cli", "app.config", "app.services")
    print(sorted(name for name in sys.modules if name.startswith(foreign)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
