"""The units in compose/systemd: systemd takes them, their commands exist, they end as the processes do."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from celery.bin.celery import celery as celery_group

from app.adapters.ending import EXIT_GRACE_OVER
from app.cli.root import COMMANDS, STATUS_USAGE
from app.config import build_settings
from workers.ending import EXIT_CONFIGURATION
from workers.watchdog import EXIT_NO_PROGRESS

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "compose" / "systemd").glob("*.service"))
PREFIX = "/opt/vmscaler/bin/"
HARDENING = {
    *("NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes"),
    *("PrivateTmp=yes", "PrivateDevices=yes", "UMask=0077", "RestrictNamespaces=yes"),
}


def lines_of(unit: Path) -> list[str]:
    return unit.read_text().splitlines()


def value_of(unit: Path, name: str) -> str:
    (value,) = [line.partition("=")[2] for line in lines_of(unit) if line.startswith(f"{name}=")]
    return value


def test_there_is_a_unit_for_each_process_of_the_fleet() -> None:
    names = [unit.stem for unit in UNITS]
    assert names == ["vmscaler-beat", "vmscaler-flower", "vmscaler-scheduler", "vmscaler-worker@"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_command_exists_with_its_options(unit: Path) -> None:
    program, *arguments = shlex.split(value_of(unit, "ExecStart").removeprefix(PREFIX))
    if program == "vmscaler":
        assert arguments[0] in COMMANDS
        return
    assert (program, arguments[:2]) == ("celery", ["-A", "workers"])
    command = celery_group.commands[arguments[2]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in arguments[3:] if word.startswith("-")} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_is_hardened_and_runs_as_an_ordinary_user(unit: Path) -> None:
    assert set(lines_of(unit)) >= HARDENING
    assert value_of(unit, "User") == "vmscaler"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_waits_longer_than_the_grace_period_and_keeps_what_helps_to_start_again(unit: Path) -> None:
    grace_s = build_settings({}, {}).shutdown.grace_period_seconds
    assert int(value_of(unit, "TimeoutStopSec")) > grace_s
    assert value_of(unit, "Restart") == "always"
    assert value_of(unit, "RestartPreventExitStatus") == str(EXIT_CONFIGURATION)
    assert EXIT_CONFIGURATION == STATUS_USAGE


def test_the_documented_exit_statuses_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    for status in (0, 1, EXIT_CONFIGURATION, EXIT_NO_PROGRESS, EXIT_GRACE_OVER, 130, 143):
        assert f"\n| {status} |" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong_with_it(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name.replace("@.", "@1.")
    # It looks for the program, which is installed elsewhere here.
    text = unit.read_text()
    copy.write_text(text.replace(value_of(unit, "ExecStart").split()[0], sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
